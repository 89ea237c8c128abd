"""Where `make test-hosts` installs the programs, and how they are started."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from tests.servers import ROOT, wait_for

NPM = ROOT / "build" / "hosts"
BIN = ROOT / ".venv" / "hosts" / "bin"
LITELLM = ROOT / ".venv" / "litellm" / "bin" / "litellm"


@contextlib.contextmanager
def running_program(command: Sequence[str], folder: Path, **environ: str) -> Iterator[None]:
    with (folder / "program.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=os.environ | environ)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def answers(client: httpx.Client, path: str) -> None:
    """Waits until the program answers."""

    def is_up() -> bool:
        try:
            return client.get(path).status_code == 200
        except httpx.TransportError:
            return False

    wait_for(is_up, 580)  # SillyTavern compiles its page at its first start
