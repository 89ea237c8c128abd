"""One process of the server, kept running: started, watched, restarted when it ends or hangs, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kokoro_server.errors import SetupError
from kokoro_server.server.ipc.shared_state import ProcessSlot
from kokoro_server.server.processes.launch import Launch, send

log = logging.getLogger(__name__)

State = Literal["starting", "running", "restarting", "stopped"]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Times in seconds."""

    first_backoff: float = 0.1  # the wait before a restart, doubled each time
    max_backoff: float = 10.0
    backoff_reset: float = 30.0  # after running for so long it is restarted with the first backoff
    hung: float = 30.0  # without a sign of life on the board, after which it is killed
    watch_interval: float = 1.0
    max_failed_starts: int = 3  # in a row, after which `on_hopeless` is called


class WorkerProcess:
    """`launch` starts it; one that does not know yet which it is gets its `number`. It shows itself in its slot."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        slot: ProcessSlot,
        *,
        number: int | None = None,
        on_hopeless: Callable[[str], object] = lambda _reason: None,
        policy: RestartPolicy | None = None,
    ) -> None:
        self.name = name
        self.state: State = "stopped"
        self.restarts = 0
        self.launch = launch
        self._number = number
        self._slot = slot
        self._on_hopeless = on_hopeless
        self._policy = policy or RestartPolicy()
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "pid": self.pid, "state": self.state, "restarts": self.restarts}

    async def spawn(self) -> None:
        """Start the process. `start` then waits for it."""
        self.state = "starting"
        self._process = await self.launch()

    async def start(self) -> None:
        """Returns when it is ready. Raises SetupError if it ends instead."""
        self.state = "starting"
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep-{self.name}")

    async def stop(self, seconds: float) -> None:
        """Ask it to end; returns when it has, or has been killed after so long."""
        self.restart_no_more()
        if self._keeper:
            await asyncio.wait({self._keeper})
        await self._end(seconds)

    def restart_no_more(self) -> None:
        """It may end by itself from here on: a service manager tells all processes at once to end."""
        self.state = "stopped"
        if self._keeper:
            self._keeper.cancel()

    def signal(self, number: int) -> None:
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _launch(self) -> None:
        if self._process is None:
            self._process = await self.launch()
        try:
            await self._await_ready(self._process)
        except BaseException:
            await self._end(0)
            raise
        self.state = "running"

    async def _await_ready(self, process: Process) -> None:
        assert process.stdout
        if self._number is not None:
            await send(process, str(self._number).encode())
        line = await process.stdout.readline()
        if not line:
            raise SetupError(f"the process {self.name} ended with status {await process.wait()} before it was ready")
        if error := json.loads(line).get("error"):
            raise SetupError(error)

    async def _keep(self) -> None:
        from kokoro_server.server.ipc.siblings import retire  # here, as no process waits any more for what it imports

        backoff = self._policy.first_backoff
        while True:
            launched = time.monotonic()
            status = await self._wait_until_down()
            ended = time.monotonic()
            if ended - launched > self._policy.backoff_reset:
                backoff = self._policy.first_backoff
            self._process = None
            retire(self._slot)
            self.state = "restarting"
            log.error("process ended name=%s status=%s, restarting", self.name, status)
            backoff = await self._relaunch(backoff)
            log.info("process is back name=%s pid=%s seconds=%.1f", self.name, self.pid, time.monotonic() - ended)

    async def _relaunch(self, backoff: float) -> float:
        """Launch it until it starts, less and less often; returns the next backoff."""
        failures = 0
        while True:
            self.restarts += 1
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, self._policy.max_backoff)
            try:
                await self._launch()
            except (SetupError, OSError) as error:
                failures += 1
                log.error("process did not start name=%s error=%s", self.name, error)
                if failures == self._policy.max_failed_starts:
                    self._on_hopeless(f"the process {self.name} does not start: {error}")
            else:
                return backoff

    async def _wait_until_down(self) -> int:
        """Its exit status. One that hangs is killed."""
        assert self._process
        ended = asyncio.create_task(self._process.wait())
        version, looks = self._slot.version, 0
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=self._policy.watch_interval)
                # Looks count, not the clock: all processes may have been stopped for a while, as in a paused container.
                looks = looks + 1 if self._slot.version == version else 0
                version = self._slot.version
                if not ended.done() and (silent := looks * self._policy.watch_interval) > self._policy.hung:
                    log.error("process hangs name=%s silent_s=%.0f, killing it", self.name, silent)
                    self.signal(signal.SIGKILL)
            return ended.result()
        finally:
            ended.cancel()

    async def _end(self, seconds: float) -> None:
        process = self._process
        if process is None:
            return
        if seconds:
            self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await process.wait()
        self._process = None
