"""The G2P service as a child process: started, watched, restarted when it dies, stopped. Never outlives its parent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Literal

from kokoro_server.errors import G2PUnavailable, KokoroError, SetupError
from kokoro_server.g2p.client import RETRY_AFTER, G2PClient
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.subprocesses import python_path

log = logging.getLogger(__name__)

State = Literal["starting", "running", "restarting", "stopped"]

_LOG_TAIL_LINES = 20  # of the child's log, for the error message when it cannot start


@dataclass(frozen=True, slots=True)
class SupervisorPolicy:
    """Times in seconds."""

    start_timeout: float = 120.0  # for English to load, on the slowest of machines
    stop_timeout: float = 5.0
    first_backoff: float = 0.2  # the wait before a restart, doubled each time
    max_backoff: float = 10.0
    backoff_reset: float = 30.0  # after running for so long the child is restarted with the first backoff
    health_interval: float = 5.0  # between two health checks, and the timeout of each
    max_health_misses: int = 3  # in a row, after which the child counts as hung


class G2PChild:
    """Runs the G2P service on a free port, of the loopback interface by default; it changes with each restart.

    The child reads its standard input, a pipe from this process, and exits when that ends: so it ends with its parent,
    even one that is killed. It has a session of its own, so a Ctrl-C in the terminal reaches only the parent.
    """

    def __init__(
        self,
        *,
        log_level: str = "info",
        workers: int = 1,
        tracing: str = "auto",
        policy: SupervisorPolicy | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.state: State = "stopped"
        self.restarts = 0
        self.condition = Condition(Reason.G2P)
        self._options = ("--log-level", log_level, "--workers", str(workers), "--host", host, "--tracing", tracing)
        self._host = f"[{host}]" if ":" in host else host
        self._policy = policy or SupervisorPolicy()
        self._port = 0
        self._process: Process | None = None
        self._log_relay: asyncio.Task[None] | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._log_tail: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
        self._temp_dir: TemporaryDirectory[str] | None = None

    @property
    def url(self) -> str:
        """The child's present address; raises G2PUnavailable while it has none."""
        if self.state != "running":
            raise G2PUnavailable(f"the G2P service is {self.state}", retry_after=RETRY_AFTER)
        return f"http://{self._host}:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Returns when the child is up and English is loaded. Raises SetupError with the last lines of its log."""
        self.state = "starting"
        try:
            await self._launch()
        except BaseException:
            self.state = "stopped"
            raise
        self._supervisor = asyncio.create_task(self._supervise(), name="g2p-supervisor")

    async def stop(self) -> None:
        """Returns when the child is gone; does nothing when there is none."""
        self.state = "stopped"
        if self._supervisor:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
            self._supervisor = None
        await self._terminate()

    async def _supervise(self) -> None:
        clock = asyncio.get_running_loop().time
        backoff = self._policy.first_backoff
        async with contextlib.aclosing(G2PClient(lambda: self.url, self._policy.health_interval)) as client:
            while True:
                launched_at = clock()
                await self._wait_until_down(client)
                if clock() - launched_at > self._policy.backoff_reset:
                    backoff = self._policy.first_backoff
                backoff = await self._relaunch(backoff)

    async def _relaunch(self, backoff: float) -> float:
        """Launch the child until it starts, less and less often; returns the next backoff."""
        while True:
            self.restarts += 1
            log.warning("g2p child is down, restarting in seconds=%.1f restarts=%d", backoff, self.restarts)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, self._policy.max_backoff)
            try:
                await self._launch()
            except (SetupError, OSError) as error:
                log.error("g2p child did not start error=%s", error)
            else:
                self.condition.clear()
                return backoff

    async def _launch(self) -> None:
        self._log_tail.clear()
        # Each espeak voice copies its library to a temporary file, which a killed child leaves behind.
        self._temp_dir = TemporaryDirectory(prefix="kokoro-g2p-", ignore_cleanup_errors=True)
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "kokoro_server.g2p.service", *self._options),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=os.environ | {"PYTHONPATH": python_path(), "PYTHONUTF8": "1", "TMPDIR": self._temp_dir.name},
            start_new_session=True,
        )
        self._log_relay = asyncio.create_task(self._relay_log(process), name="g2p-log")
        try:
            self._port = await self._read_port(process)
        except BaseException:
            await self._terminate()
            raise
        self.state = "running"
        log.info("g2p child is up pid=%d url=%s", process.pid, self.url)

    async def _read_port(self, process: Process) -> int:
        assert process.stdout
        try:
            line = await asyncio.wait_for(process.stdout.readline(), self._policy.start_timeout)
        except TimeoutError:
            raise SetupError(f"the G2P service was not ready after {self._policy.start_timeout:.0f} s") from None
        if line.strip().isdigit():
            return int(line)
        if self._log_relay:
            await self._log_relay
        reason = "\n".join(self._log_tail) or "it said nothing"
        raise SetupError(f"the G2P service did not start (exit status {await process.wait()}): {reason}")

    async def _wait_until_down(self, client: G2PClient) -> None:
        """Returns when the child has ended, by itself or because it hung and was killed."""
        assert self._process
        ended = asyncio.ensure_future(self._process.wait())
        misses = 0
        try:
            while not ended.done() and misses < self._policy.max_health_misses:
                await asyncio.wait({ended}, timeout=self._policy.health_interval)
                misses = 0 if ended.done() or await is_healthy(client) else misses + 1
        finally:
            ended.cancel()
        if misses:
            log.error("g2p child does not answer, killing it pid=%d misses=%d", self._process.pid, misses)
        self.state = "restarting"
        self.condition.set("the G2P service is down, and text cannot be read; it is restarted, its log says why")
        await self._terminate(kill=True)

    async def _terminate(self, *, kill: bool = False) -> None:
        """Stop the child, if there is one, and read its log to the end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        if not kill:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._policy.stop_timeout)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if self._log_relay:
            await self._log_relay
        if self._temp_dir:
            self._temp_dir.cleanup()

    async def _relay_log(self, process: Process) -> None:
        assert process.stderr
        while line := await _read_line(process.stderr):
            text = line.decode(errors="replace").rstrip()
            level, _, message = text.partition(" ")
            level_number = logging.getLevelNamesMapping().get(level)
            self._log_tail.append(message if level_number else text)
            log.log(level_number or logging.WARNING, "g2p | %s", message if level_number else text)


async def is_healthy(client: G2PClient) -> bool:
    try:
        await client.health()
    except KokoroError as error:
        log.warning("g2p service is not healthy error=%s", error)
        return False
    return True


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """The next line, or as much of it as fits the buffer; empty at the end of the stream."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        return await stream.read(overrun.consumed)
