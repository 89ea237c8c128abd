"""The G2P service as a child process, which never outlives its parent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio.subprocess import PIPE, Process
from collections import deque

from kokoro_server.errors import G2PUnavailable, KokoroError, SetupError
from kokoro_server.g2p.client import RETRY_AFTER, G2PClient
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.files import OwnedFolder
from kokoro_server.runtime.subprocesses import start_python
from kokoro_server.runtime.supervise import RestartPolicy, SupervisedChild

log = logging.getLogger(__name__)

START_TIMEOUT = 120.0  # seconds for English to load, on the slowest of machines
STOP_GRACE = 5.0  # seconds
# The interval between two health checks is also the timeout of each.
POLICY = RestartPolicy(Backoff(0.2, longest=10.0), watch_interval=5.0, max_misses=3, max_start_misses=6)

_LOG_TAIL_LINES = 20  # of the child's log, for the error message when it cannot start


class G2PChild(SupervisedChild):
    """Runs the G2P service on a free port of `host`. The port changes with each restart.

    The child reads its standard input, a pipe from this process, and exits at its end: so it ends with its parent, even
    one that is killed. It has a session of its own, so a Ctrl-C in the terminal reaches only the parent.
    """

    def __init__(
        self,
        *,
        log_level: str = "info",
        workers: int = 1,
        tracing: str = "auto",
        policy: RestartPolicy = POLICY,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__("g2p", policy)
        self.condition = Condition(Reason.G2P)
        self._options = ("--log-level", log_level, "--workers", str(workers), "--host", host, "--tracing", tracing)
        self._host = f"[{host}]" if ":" in host else host
        self._port = 0
        self._log_relay: asyncio.Task[None] | None = None
        self._log_tail: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
        self._temp_dir: OwnedFolder | None = None
        self._client: G2PClient

    @property
    def url(self) -> str:
        """The child's present address; raises G2PUnavailable while it has none."""
        if self.state != "running":
            raise G2PUnavailable(f"the G2P service is {self.state}", retry_after=RETRY_AFTER)
        return f"http://{self._host}:{self._port}"

    async def stop(self, grace: float = STOP_GRACE) -> None:
        await super().stop(grace)

    async def _keep_running(self) -> None:
        async with contextlib.aclosing(G2PClient(lambda: self.url, self._policy.watch_interval)) as self._client:
            await super()._keep_running()

    async def _launch(self) -> Process:
        self._log_tail.clear()
        # Each espeak voice copies its library to a temporary file, which a killed child leaves behind.
        self._temp_dir = OwnedFolder("kokoro-g2p-")
        process = await start_python(
            "kokoro_server.g2p.service",
            *self._options,
            environ={"PYTHONUTF8": "1", "TMPDIR": self._temp_dir.name},
            stderr=PIPE,
            start_new_session=True,
        )
        self._log_relay = asyncio.create_task(self._relay_log(process), name="g2p-log")
        return process

    async def _await_ready(self, process: Process) -> None:
        try:
            line = await asyncio.wait_for(self._read_report(process), START_TIMEOUT)
        except TimeoutError:
            raise SetupError(f"the G2P service was not ready after {START_TIMEOUT:.0f} s") from None
        if not line.strip().isdigit():
            if self._log_relay:
                await self._log_relay
            reason = "\n".join(self._log_tail) or "it said nothing"
            raise SetupError(f"the G2P service did not start (exit status {await process.wait()}): {reason}")
        self._port = int(line)
        log.info("g2p child is up pid=%d url=http://%s:%d", process.pid, self._host, self._port)

    async def _is_alive(self) -> bool:
        healthy = await is_healthy(self._client)
        if healthy:
            self.condition.clear()
        else:
            self.condition.set("the G2P service does not answer; it is restarted if that goes on")
        return healthy

    def _ask_to_end(self) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.close()

    def _on_down(self) -> None:
        self.condition.set("the G2P service is down, and text cannot be read; it is restarted, its log says why")

    def _on_back(self) -> None:
        self.condition.clear()

    async def _clean_up(self) -> None:
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
    """The next line, or as much of a line as fits the buffer; empty at the end of the stream."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        return await stream.read(overrun.consumed)
