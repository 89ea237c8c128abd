"""A process of the server, kept running by the supervisor: the engine process, or an API worker."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import pickle
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine
from typing import Any

from kokoro_server.config.settings import Settings
from kokoro_server.errors import SetupError
from kokoro_server.runtime.background import cancel, logged_task
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.subprocesses import send, start_python
from kokoro_server.runtime.supervise import RestartPolicy, SupervisedChild
from kokoro_server.server.ipc.shared_state import ProcessSlot

log = logging.getLogger(__name__)

Launch = Callable[[], Coroutine[Any, Any, Process]]

POLICY = RestartPolicy(Backoff(0.1, longest=10.0), watch_interval=1.0, max_misses=30, max_start_misses=30)
SPARE_TIMEOUT = 5.0  # seconds for a spare to show that it lives when it is to take another's place


async def launch(role: str, arguments: tuple[str, ...], fds: tuple[int, ...], settings: Settings) -> Process:
    """Start `processes.child` in a role. The child inherits the descriptors `fds`."""
    process = await start_python(
        "kokoro_server.server.processes.child",
        *(role, *arguments),
        pass_fds=fds,
        start_new_session=True,  # a Ctrl-C in the terminal reaches only the supervisor
    )
    await send(process, base64.b64encode(pickle.dumps(settings)) + b"\n")
    return process


class ServerProcess(SupervisedChild):
    """`launch` starts the process, or takes a spare, which begins when it gets its `number` among its kind.

    A process that writes nothing to its slot of the shared state counts as hung.
    """

    def __init__(
        self,
        name: str,
        launch: Launch,
        slot: ProcessSlot,
        *,
        number: int = 0,
        on_hopeless: Callable[[str], object] = lambda _reason: None,
        policy: RestartPolicy = POLICY,
    ) -> None:
        super().__init__(name, policy, on_hopeless)
        self.launch = launch
        self._number = number
        self._slot = slot
        self._version = 0  # of the slot, at the last look

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "pid": self.pid, "state": self.state, "restarts": self.restarts}

    async def _launch(self) -> Process:
        return await self.launch()

    async def _await_ready(self, process: Process) -> None:
        await send(process, f"{self._number}\n".encode())
        if not (line := await self._read_report(process)):
            raise SetupError(f"the process {self.name} ended with status {await process.wait()} before it was ready")
        if error := json.loads(line).get("error"):
            raise SetupError(error)

    async def _is_alive(self) -> bool:
        before, self._version = self._version, self._slot.version
        return before != self._version

    def _on_down(self) -> None:
        from kokoro_server.server.ipc.siblings import retire  # here: at the start, other processes wait for imports

        retire(self._slot)


class Spare:
    """A process that has imported all it needs, which takes seconds, and waits for its number."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._process: Process | None = None
        self._filling: asyncio.Task[None] | None = None

    async def take(self) -> Process:
        """The spare, or else a new process. The next spare is started."""
        process, self._process = self._process, None
        if process:
            await cancel(self._filling)  # from here on another reads what the process writes
        if process is None or not await _lives(process):
            process = await self.launch()
        self.fill()
        return process

    def fill(self) -> None:
        if self._filling is None or self._filling.done():
            self._filling = logged_task(self._fill())

    async def stop(self) -> None:
        await cancel(self._filling)
        process, self._process = self._process, None
        if process:
            await _kill(process)

    async def _fill(self) -> None:
        self._process = process = await self.launch()
        assert process.stdout
        while await process.stdout.readline():
            pass  # a sign of life while it starts


async def _lives(spare: Process) -> bool:
    """Whether it shows a sign of life. One that hangs is killed."""
    assert spare.stdout
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SPARE_TIMEOUT):
            await send(spare, b"\n")
            if await spare.stdout.readline():
                return True
    log.warning("a spare process hangs or has ended, a new one takes its place pid=%d", spare.pid)
    await _kill(spare)
    return False


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
