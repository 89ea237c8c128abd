"""Every shell and Python example of README and docs runs, against a real server process with the tiny model.

The examples of a page run in order, in one folder. A page's shell examples share their exported variables. The address
`localhost:8880` becomes that of the test's server, `kokoro-server` runs with the tiny model, and a book called
`alice.epub` is in the folder. An example that cannot run says why in a comment before it:

    <!-- not run: needs Docker -->

Examples of other services' packages run with those packages, by tests/clients: `<!-- run by: make test-clients -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.browser.books import small_book
from tests.docs import pages
from tests.docs.pages import Example
from tests.servers import ROOT, Server

TIMEOUT = 300  # seconds for one example
ADDRESS = re.compile(r"\b(localhost|127\.0\.0\.1):8880\b")
SCRIPT = """set -euo pipefail
[ -f "$STATE" ] && . "$STATE"
{code}
export -p > "$STATE"
"""
COMMAND = """#!/bin/sh
PYTHONPATH={root} exec {python} -m tests.services.documented "$@"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("documented")
    (folder / "voices").mkdir()
    arguments = ("-m", "tests.services.documented", "serve")
    with servers.running(arguments, folder / "log", VOICES_PATH=str(folder / "voices")) as server:
        yield server


@pytest.fixture(scope="module")
def environment(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of the examples, in which `kokoro-server` is one that runs the tiny model."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "kokoro-server"
    command.write_text(COMMAND.format(root=ROOT, python=sys.executable))
    command.chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KOKORO_", "G2P_"))}
    g2p = httpx.get(f"{server.url}/health", timeout=60).json()["g2p"]["url"]  # so that no command starts one of its own
    ours = {"PYTHONPATH": str(ROOT), "DOCUMENTED_URL": server.url, "G2P_SERVICE_URL": g2p, "LOG_LEVEL": "warning"}
    return clean | ours | {"PATH": path}


@pytest.mark.parametrize("page", [page for page in pages.PAGES if any(pages.examples(page))], ids=pages.name)
def test_examples_run(page: Path, server: Server, environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "alice.epub").write_bytes(small_book())
    for example in pages.examples(page):
        if not example.not_run and not example.run_by:
            run(example, server, folder, environment | {"STATE": str(tmp_path / "state")})


def run(example: Example, server: Server, folder: Path, environment: dict[str, str]) -> None:
    code = ADDRESS.sub(server.url.removeprefix("http://"), example.code)
    shell = pages.RUNNABLE[example.language] == "bash"
    command = ["bash", "-c", SCRIPT.format(code=code)] if shell else [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    shown = f"{example}\n{example.code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, shown
    assert '{"error"' not in done.stdout, shown
    for file in folder.iterdir():  # curl ends with 0 for an error of the server
        if file.is_file():
            assert not file.read_bytes().startswith((b'{"error"', b'{"detail"', b'{"err_code"')), (
                f"{file.name}: {shown}"
            )


def test_an_example_that_is_not_run_says_why() -> None:
    skipped = [example for page in pages.PAGES for example in pages.examples(page) if example.not_run or example.run_by]
    assert [str(example) for example in skipped if len(example.not_run or example.run_by) < 8] == []
    assert {example.run_by for example in skipped} <= {"", "make test-clients"}
    assert len(skipped) < 80
