"""One process of the server, kept running: started, watched, restarted when it ends or hangs, stopped."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import pickle
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kokoro_server.config import Settings
from kokoro_server.errors import SetupError
from kokoro_server.g2p.child import python_path
from kokoro_server.link.board import Slot

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


class Worker:
    """`arguments` are for `processes.child`, `fds` the descriptors that it gets. It shows itself alive in its slot."""

    def __init__(
        self,
        name: str,
        arguments: tuple[str, ...],
        fds: tuple[int, ...],
        settings: Settings,
        slot: Slot,
        *,
        on_hopeless: Callable[[str], object] = lambda _reason: None,
        policy: RestartPolicy | None = None,
    ) -> None:
        self.name = name
        self.state: State = "stopped"
        self.restarts = 0
        self._arguments = arguments
        self._fds = fds
        self._settings = settings
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

    async def start(self) -> None:
        """Returns when it is ready. Raises SetupError if it ends instead."""
        self.state = "starting"
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep-{self.name}")

    async def stop(self, seconds: float) -> None:
        """Ask it to end; returns when it has, or has been killed after so long."""
        self.state = "stopped"
        if self._keeper:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        await self._end(seconds)

    def signal(self, number: int) -> None:
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _launch(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "kokoro_server.processes.child", *self._arguments),
            stdin=PIPE,
            stdout=PIPE,
            env=os.environ | {"PYTHONPATH": python_path()},
            pass_fds=self._fds,
            start_new_session=True,  # a Ctrl-C in the terminal reaches only the supervisor
        )
        try:
            await self._await_ready(process)
        except BaseException:
            await self._end(0)
            raise
        self.state = "running"

    async def _await_ready(self, process: Process) -> None:
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(ConnectionError):  # it has ended: what it says of that comes below
            process.stdin.write(base64.b64encode(pickle.dumps(self._settings)) + b"\n")
            await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise SetupError(f"the process {self.name} ended with status {await process.wait()} before it was ready")
        if error := json.loads(line).get("error"):
            raise SetupError(error)

    async def _keep(self) -> None:
        backoff = self._policy.first_backoff
        while True:
            launched = time.monotonic()
            status = await self._wait_until_down()
            if time.monotonic() - launched > self._policy.backoff_reset:
                backoff = self._policy.first_backoff
            self.state = "restarting"
            log.error("process ended name=%s status=%s, restarting", self.name, status)
            backoff = await self._relaunch(backoff)
            log.info("process is back name=%s pid=%s seconds=%.1f", self.name, self.pid, time.monotonic() - launched)

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
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=self._policy.watch_interval)
                if not ended.done() and (silent := self._silent_seconds()) > self._policy.hung:
                    log.error("process hangs name=%s silent_s=%.0f, killing it", self.name, silent)
                    self.signal(signal.SIGKILL)
            return ended.result()
        finally:
            ended.cancel()

    def _silent_seconds(self) -> float:
        shown = self._slot.read()
        return time.monotonic() - shown["at"] if shown.get("pid") == self.pid else 0.0

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
        if process.stdin:
            process.stdin.close()
