"""Run a download client as a process that is ended, with all its own processes, when it makes no progress."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from kokoro_server.assets.files import tree_bytes

POLL_S = 0.5
END_S = 5.0  # for the rest of the output when the processes have been killed


class ProcessStalled(Exception):
    """The process made no progress and was ended."""


def run(command: list[str], folder: Path, environment: Mapping[str, str], stall_s: float) -> tuple[int, str]:
    """Run `command` in `folder`, where it keeps all its files. Returns its exit status and its output.

    Progress is a change in the size of `folder`: however slow a download is, it goes on while it makes some. Raises
    ProcessStalled after `stall_s` seconds without.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,  # so that its own processes can be ended with it
    ) as process:
        # A Ctrl-C in the terminal does not reach another process group, and this thread may be a daemon.
        kill = partial(_kill, process)
        atexit.register(kill)
        try:
            return _communicate(process, folder, stall_s)
        except BaseException:
            kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=END_S)
            raise
        finally:
            atexit.unregister(kill)


def _communicate(process: subprocess.Popen[str], folder: Path, stall_s: float) -> tuple[int, str]:
    size, progressed = -1, time.monotonic()
    while True:
        try:
            output, _ = process.communicate(timeout=POLL_S)
        except subprocess.TimeoutExpired:
            if (now := tree_bytes(folder)) != size:
                size, progressed = now, time.monotonic()
            elif time.monotonic() - progressed >= stall_s:
                raise ProcessStalled(f"no progress for {stall_s:.0f} s") from None
        else:
            return process.returncode, output


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
