"""The one way to start a Python process of ours: with this process's code, and nothing from the working folder.

`StartReport` and `exit_with_parent` are for the child, which reports to its parent and ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PACKAGE_ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1
_DESCRIPTORS = Path("/dev/fd")  # of this process; absent on Windows

BEAT_INTERVAL = 1.0  # seconds between signs of life of a child that starts


def python_path() -> str:
    """The PYTHONPATH with which a child runs the same code as this process, wherever that was imported from."""
    return os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))


async def start_python(
    module: str, *arguments: str, environ: Mapping[str, str] | None = None, **options: Any
) -> Process:
    """Run a module in a child process with pipes to and from it. `options` are of `create_subprocess_exec`."""
    command, settings = _command(module, arguments), _environ(environ)
    _keep_descriptors()
    return await asyncio.create_subprocess_exec(*command, env=settings, **{"stdin": PIPE, "stdout": PIPE} | options)


async def send(process: Process, data: bytes, *, last: bool = False) -> None:
    """Write to a child. One that has ended gets nothing, which its owner sees by that end."""
    assert process.stdin
    if not process.stdin.is_closing():  # else uvloop raises RuntimeError
        with contextlib.suppress(ConnectionError):
            process.stdin.write(data)
            await process.stdin.drain()
    if last:
        process.stdin.close()


def popen_python(module: str, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """The same for a thread without an event loop."""
    return subprocess.Popen(_command(module, arguments), env=_environ(environ), stdin=PIPE, stdout=PIPE)


class StartReport:
    """What a child writes to its parent while it starts: empty lines, as signs of life, and at last how that went.

    What libraries print to standard output goes to standard error from here on.
    """

    def __init__(self) -> None:
        self._pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._is_spare = False
        self._finished = threading.Event()
        threading.Thread(target=self._beat_regularly, name="start-report", daemon=True).start()

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    def finish(self, line: str) -> None:
        """The last line. Later ones are dropped, as nobody reads them."""
        if not self.finished:
            self._finished.set()
            self._write(line.encode() + b"\n")
            self._pipe.close()

    def wait_for_line(self) -> bytes:
        """The next line from the parent, empty when it has ended. Meanwhile this gives signs of life only when asked.

        The parent asks by an empty line.
        """
        self._is_spare = True
        while (line := sys.stdin.buffer.readline()) == b"\n":
            self._write(b"\n")
        self._is_spare = False
        return line

    def _beat_regularly(self) -> None:
        while not self._finished.wait(BEAT_INTERVAL):
            if not self._is_spare:
                self._write(b"\n")

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # the parent has ended, or the pipe is closed
            self._pipe.write(line)


def exit_with_parent(grace: float, on_orphaned: Callable[[], object] = lambda: None) -> None:
    """Exit when standard input ends, as it does however the parent ends: by SIGTERM, or after `grace` seconds at once.

    A thread watches, as loading may block the event loop. It calls `on_orphaned` first.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        on_orphaned()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def die_with_parent() -> None:
    """The system kills this process when its parent ends, however that ends. Only Linux can."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it has just ended
            os._exit(1)


def _command(module: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    # -P: without it, the working folder comes first in the search path, and a stranger's `av.py` there would be run.
    # PYTHONSAFEPATH, below, is the same for processes that the child starts.
    return sys.executable, "-P", "-m", module, *arguments


def _keep_descriptors() -> None:
    """Let no child inherit what libraries opened here without a thought of children. uvloop does not see to that."""
    for descriptor in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        if int(descriptor.name) > 2:  # not the standard streams
            with contextlib.suppress(OSError):  # it has been closed, as that of this listing
                os.set_inheritable(int(descriptor.name), False)


def _environ(changes: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(), "PYTHONSAFEPATH": "1", **(changes or {})}
