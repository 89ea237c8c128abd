"""Starts the processes of a server, some of them before they are needed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine
from typing import Any

from kokoro_server.config.settings import Settings
from kokoro_server.runtime.subprocesses import python_path

Launch = Callable[[], Coroutine[Any, Any, Process]]


async def launch(role: str, arguments: tuple[str, ...], fds: tuple[int, ...], settings: Settings) -> Process:
    """Start `processes.child` in a role. `fds` are the descriptors that it gets."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "kokoro_server.server.processes.child", role, *arguments),
        stdin=PIPE,
        stdout=PIPE,
        env=os.environ | {"PYTHONPATH": python_path()},
        pass_fds=fds,
        start_new_session=True,  # a Ctrl-C in the terminal reaches only the supervisor
    )
    await send(process, base64.b64encode(pickle.dumps(settings)))
    return process


async def send(process: Process, line: bytes) -> None:
    assert process.stdin
    with contextlib.suppress(ConnectionError):  # it has ended, which its owner sees by itself
        process.stdin.write(line + b"\n")
        await process.stdin.drain()


class Spare:
    """A process that has imported all it needs and waits to be told which one it is. To import takes seconds."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._process: Process | None = None
        self._filling: asyncio.Task[None] | None = None

    async def take(self) -> Process:
        """The spare, if there is one, else a new process. The next spare is started."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            process = await self.launch()
        self.fill()
        return process

    def fill(self) -> None:
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill())

    async def stop(self) -> None:
        if self._filling:
            self._filling.cancel()
            await asyncio.wait({self._filling})
        process, self._process = self._process, None
        if process and process.returncode is None:
            process.kill()
            await process.wait()

    async def _fill(self) -> None:
        if self._process is None:
            self._process = await self.launch()
