"""A child process that is kept running: started, watched, restarted when it ends or hangs, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kokoro_server.errors import SetupError
from kokoro_server.runtime.background import cancel, logged_task
from kokoro_server.runtime.backoff import Backoff

log = logging.getLogger(__name__)

ChildState = Literal["starting", "running", "restarting", "stopped"]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Times in seconds."""

    backoff: Backoff  # before a restart
    watch_interval: float  # between two looks at a child
    max_misses: int  # looks in a row without a sign of life, after which a child counts as hung and is killed
    max_start_misses: int  # the same for a child that starts
    backoff_reset: float = 30.0  # a child that has run for longer is restarted with the first backoff
    max_failed_starts: int = 3  # in a row, after which `on_hopeless` is called


class SupervisedChild(ABC):
    """One child process and its successors. A subclass says how a child is launched, is ready, and shows that it lives.

    `on_hopeless` is called with the reason when one restart after the other fails; restarting goes on regardless.
    """

    def __init__(
        self, name: str, policy: RestartPolicy, on_hopeless: Callable[[str], object] = lambda _reason: None
    ) -> None:
        self.name = name
        self.state: ChildState = "stopped"
        self.restarts = 0
        self._policy = policy
        self._on_hopeless = on_hopeless
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def spawn(self) -> None:
        """Start the process. `start` then waits until it is ready."""
        self.state = "starting"
        self._process = await self._launch()

    async def start(self) -> None:
        """Returns when the child is ready. Raises SetupError, or OSError, if it cannot start."""
        self.state = "starting"
        try:
            await self._bring_up()
        except BaseException:
            self.state = "stopped"
            raise
        self._keeper = logged_task(self._keep_running())

    async def stop(self, grace: float) -> None:
        """Ask the child to end. Returns when it has ended, or was killed after `grace` seconds."""
        self.stop_restarting()
        await cancel(self._keeper)
        await self._end(grace)

    def stop_restarting(self) -> None:
        """The child may end by itself from here on: a service manager asks all processes at once to end."""
        self.state = "stopped"
        if self._keeper:
            self._keeper.cancel()

    def signal(self, number: int) -> None:
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    @abstractmethod
    async def _launch(self) -> Process: ...

    @abstractmethod
    async def _await_ready(self, process: Process) -> None:
        """Returns when the process can serve. Raises SetupError when it cannot."""

    @abstractmethod
    async def _is_alive(self) -> bool:
        """Whether the child has given a sign of life since the last look."""

    async def _read_report(self, process: Process) -> bytes:
        """The last line of a child's `StartReport`, or nothing if it ends before. Raises SetupError if it hangs."""
        assert process.stdout
        misses = 0
        while misses < self._policy.max_start_misses:
            try:
                line = await asyncio.wait_for(process.stdout.readline(), self._policy.watch_interval)
            except TimeoutError:
                misses += 1  # looks count, as in `_wait_until_down`
            else:
                if line != b"\n":
                    return line
                misses = 0
        silent = misses * self._policy.watch_interval
        raise SetupError(f"the process {self.name} gave no sign of life for {silent:g} s while it started")

    def _ask_to_end(self) -> None:
        self.signal(signal.SIGTERM)

    def _on_down(self) -> None:  # noqa: B027 - not all have something to do
        """The child has ended or hung, and will be restarted."""

    def _on_back(self) -> None:  # noqa: B027
        """The child has been restarted."""

    async def _clean_up(self) -> None:  # noqa: B027
        """The process has ended, whatever the reason."""

    async def _bring_up(self) -> None:
        if self._process is None:
            self._process = await self._launch()
        try:
            await self._await_ready(self._process)
        except BaseException:
            await self._end(0)
            raise
        self.state = "running"

    async def _keep_running(self) -> None:
        tries = 0  # restarts without a long run between them
        while True:
            launched = time.monotonic()
            status = await self._wait_until_down()
            ended = time.monotonic()
            if ended - launched > self._policy.backoff_reset:
                tries = 0
            self.state = "restarting"
            self._on_down()
            log.error("process ended name=%s status=%s", self.name, status)
            await self._end(0)
            tries = await self._restart(tries)
            self._on_back()
            log.info("process is back name=%s pid=%s seconds=%.1f", self.name, self.pid, time.monotonic() - ended)

    async def _restart(self, tries: int) -> int:
        """Launch the child until it starts, less and less often. Returns `tries` and those made here."""
        failures = 0
        while True:
            tries += 1
            self.restarts += 1
            seconds = self._policy.backoff.wait(tries)
            log.warning("restarting process name=%s in seconds=%.2f restarts=%d", self.name, seconds, self.restarts)
            await asyncio.sleep(seconds)
            try:
                await self._bring_up()
            except Exception as error:  # whatever it is: else nobody would try again
                failures += 1
                is_known = isinstance(error, SetupError | OSError)
                log.error("process did not start name=%s error=%r", self.name, error, exc_info=not is_known)
                if failures == self._policy.max_failed_starts:
                    self._on_hopeless(f"the process {self.name} does not start: {error}")
            else:
                return tries

    async def _wait_until_down(self) -> int:
        """Returns the child's exit status. Kills a child that hangs."""
        assert self._process
        ended = asyncio.create_task(self._process.wait())
        misses = 0
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=self._policy.watch_interval)
                # Looks count, not the clock: all processes may have been stopped for a while, as in a paused container.
                misses = 0 if ended.done() or await self._is_alive() else misses + 1
                if misses >= self._policy.max_misses:
                    silent = misses * self._policy.watch_interval
                    log.error("process hangs name=%s pid=%s silent_s=%.0f, killing it", self.name, self.pid, silent)
                    self.kill()
            return ended.result()
        finally:
            await cancel(ended)

    async def _end(self, grace: float) -> None:
        process = self._process
        if process is None:
            return
        if grace:
            self._ask_to_end()
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()
        await self._clean_up()
        self._process = None
