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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from kokoro_server.errors import G2PUnavailable, KokoroError, SetupError
from kokoro_server.g2p.client import RETRY_AFTER, G2PClient

log = logging.getLogger(__name__)

State = Literal["starting", "running", "restarting", "stopped"]

_PACKAGE_ROOT = Path(__file__).parents[2]
_LAST_LINES = 20  # of the child's log, for the error when it cannot start


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for what, in seconds."""

    start: float = 120.0  # for English to load, on the slowest of machines
    stop: float = 5.0
    first_restart: float = 0.2  # doubled each time
    last_restart: float = 10.0
    steady: float = 30.0  # a child that ran for so long is restarted as if for the first time
    health: float = 5.0  # between two looks at its health, and for the answer
    health_misses: int = 3  # in a row, after which it counts as hung


class G2PChild:
    """Runs the G2P service on a free loopback port; the port changes when it is restarted.

    The child reads its standard input, a pipe from this process, and exits when that ends: so it ends with its
    parent, even one that is killed. It has a session of its own, and so a Ctrl-C in the terminal is only for us.
    """

    def __init__(self, *, log_level: str = "info", workers: int = 1, patience: Patience | None = None) -> None:
        self.state: State = "stopped"
        self.restarts = 0
        self._options = ("--log-level", log_level, "--workers", str(workers))
        self._patience = patience or Patience()
        self._port = 0
        self._process: Process | None = None
        self._log_relay: asyncio.Task[None] | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._scratch: TemporaryDirectory[str] | None = None

    @property
    def url(self) -> str:
        """Where it listens now; raises G2PUnavailable while it does not."""
        if self.state != "running":
            raise G2PUnavailable(f"the G2P service is {self.state}", retry_after=RETRY_AFTER)
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Returns when the child is up and English ready; raises SetupError with its last words otherwise."""
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
        await self._end()

    async def _supervise(self) -> None:
        clock = asyncio.get_running_loop().time
        delay = self._patience.first_restart
        async with contextlib.aclosing(G2PClient(lambda: self.url, self._patience.health)) as client:
            while True:
                launched = clock()
                await self._until_down(client)
                if clock() - launched > self._patience.steady:
                    delay = self._patience.first_restart
                delay = await self._relaunch(delay)

    async def _relaunch(self, delay: float) -> float:
        """Launch until it works, less and less often; returns the next delay."""
        while True:
            self.restarts += 1
            log.warning("g2p child is down, restarting in seconds=%.1f restarts=%d", delay, self.restarts)
            await asyncio.sleep(delay)
            delay = min(delay * 2, self._patience.last_restart)
            try:
                await self._launch()
            except (SetupError, OSError) as error:
                log.error("g2p child did not start error=%s", error)
            else:
                return delay

    async def _launch(self) -> None:
        self._last_lines.clear()
        # Each voice of espeak keeps a copy of its library in a temporary file, which a killed child leaves behind.
        self._scratch = TemporaryDirectory(prefix="kokoro-g2p-", ignore_cleanup_errors=True)
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "kokoro_server.g2p.service", *self._options),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=os.environ | {"PYTHONPATH": _python_path(), "PYTHONUTF8": "1", "TMPDIR": self._scratch.name},
            start_new_session=True,
        )
        self._log_relay = asyncio.create_task(self._relay_log(process), name="g2p-log")
        try:
            self._port = await self._reported_port(process)
        except BaseException:
            await self._end()
            raise
        self.state = "running"
        log.info("g2p child is up pid=%d url=%s", process.pid, self.url)

    async def _reported_port(self, process: Process) -> int:
        assert process.stdout
        try:
            line = await asyncio.wait_for(process.stdout.readline(), self._patience.start)
        except TimeoutError:
            raise SetupError(f"the G2P service was not ready after {self._patience.start:.0f} s") from None
        if line.strip().isdigit():
            return int(line)
        if self._log_relay:
            await self._log_relay
        words = "\n".join(self._last_lines) or "it said nothing"
        raise SetupError(f"the G2P service did not start (exit status {await process.wait()}): {words}")

    async def _until_down(self, client: G2PClient) -> None:
        """Returns when the child has ended, by itself or because it hung and was killed."""
        assert self._process
        ended = asyncio.ensure_future(self._process.wait())
        misses = 0
        try:
            while not ended.done() and misses < self._patience.health_misses:
                await asyncio.wait({ended}, timeout=self._patience.health)
                misses = 0 if ended.done() or await _is_healthy(client) else misses + 1
        finally:
            ended.cancel()
        if misses:
            log.error("g2p child does not answer, killing it pid=%d misses=%d", self._process.pid, misses)
        self.state = "restarting"
        await self._end(at_once=True)

    async def _end(self, *, at_once: bool = False) -> None:
        """End the child, if it is there, and read its log to the end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        if not at_once:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._patience.stop)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if self._log_relay:
            await self._log_relay
        if self._scratch:
            self._scratch.cleanup()

    async def _relay_log(self, process: Process) -> None:
        assert process.stderr
        while line := await _line(process.stderr):
            text = line.decode(errors="replace").rstrip()
            level, _, message = text.partition(" ")
            number = logging.getLevelNamesMapping().get(level)
            self._last_lines.append(message if number else text)
            log.log(number or logging.WARNING, "g2p | %s", message if number else text)


async def _is_healthy(client: G2PClient) -> bool:
    try:
        await client.health()
    except KokoroError as error:
        log.warning("g2p child is not healthy error=%s", error)
        return False
    return True


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line, or as much of it as fits the buffer; empty at the end."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        return await stream.read(overrun.consumed)


def _python_path() -> str:
    """The child runs the same code as we do, wherever that was found."""
    return os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
