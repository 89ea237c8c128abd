"""A front's end of the link: the queue of the engine process, as if it were in this process."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_server.batching.entry import Outcome, Priority
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.speech_queue import SpeechQueue, Ticket
from kokoro_server.engine.protocol import Row
from kokoro_server.errors import EngineUnavailable, Expired
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.server.ipc import wire
from kokoro_server.server.ipc.audio_buffers import AudioBufferView
from kokoro_server.server.ipc.connection import IpcConnection
from kokoro_server.server.ipc.wire import MessageKind, OutcomeHead, Submission

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span

CONNECT_INTERVAL = 0.1  # seconds between two attempts to reach the engine process
CONNECT_TIMEOUT = 5.0
STATE_TIMEOUT = 5.0
RETRY_AFTER = 5.0  # seconds; an engine process that died needs as long, or some more
WATCH_INTERVAL = 0.5  # seconds between two looks at whether the engine process has said anything
SILENT_LOOKS = 6  # in vain, after which it counts as silent: it says something twice a second
GONE = "the engine process has ended and is being restarted; try again"

Answer = asyncio.Future[Any]


class RemoteQueue(SpeechQueue):
    """The queue of the engine process. While that is away, everything is refused with EngineUnavailable.

    It connects again by itself, from `start` to `stop`.
    """

    def __init__(self, path: Path, options: BatchingOptions) -> None:
        self.options = options
        self.facts: dict[str, Any] = {}  # of the model, once connected
        self._path = path
        self._numbers = itertools.count(1)
        self._link: EngineConnection | None = None
        self._status: dict[str, Any] = {"ready": False, "devices": {}, "real_time_factor": None, "model": {}}
        self._state: dict[str, Any] = {}  # as it was last told
        self.condition = Condition(Reason.ENGINE)
        self.publish: Callable[[], object] = lambda: None  # shows on the board what is true now
        self._greeted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the engine process has been reached."""
        self._task = asyncio.create_task(self._stay_connected(), name="engine-link")
        await self._greeted.wait()

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})

    @property
    def alive(self) -> bool:
        # An engine process without a device ends and is started anew, while this process goes on.
        return True

    @property
    def ready(self) -> bool:
        return self._link is not None and not self._link.silent and bool(self._status["ready"])

    @property
    def max_rows(self) -> int:
        return int(self.facts["max_rows"])

    def now(self) -> float:
        return time.monotonic()  # one clock for all processes of a machine

    def real_time_factor(self) -> float | None:
        factor: float | None = self._status["real_time_factor"]
        return factor

    def device_states(self) -> dict[str, str]:
        devices: dict[str, str] = self._status["devices"]
        return devices if self._link and not self._link.silent else dict.fromkeys(devices, "lost")

    def model_state(self) -> dict[str, Any]:
        """As it was last told, but an engine process that has ended has no model."""
        model: dict[str, Any] = self._status["model"]
        return model if self._link else model | {"state": "unloaded"}

    async def state(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(STATE_TIMEOUT):
                self._state = await self.ask(MessageKind.ASK_STATE)
        except (EngineUnavailable, TimeoutError):
            queue = self._state.get("queue_status", {}) | {
                "current_size": 0,
                "running_rows": 0,
                "worker_running": False,
            }
            return self._state | {"status": "unhealthy", "queue_status": queue}
        return self._state

    @asynccontextmanager
    async def admission(self, job: Ticket | None = None) -> AsyncIterator[None]:
        job = job or self.job()
        number, link = next(self._numbers), self._connected()
        message = wire.admit(number, job.first_deadline, job.priority, job.caller, admitted=job.admitted)
        try:
            await link.request(number, message, job.first_deadline)
            job.admitted = True
            yield
        finally:  # also when it was cancelled before the answer came
            link.send(wire.named(MessageKind.ARRIVED, number))

    def enqueue(
        self,
        row: Row,
        voice: str,
        priority: Priority,
        deadline: float,
        owner: str,
        *,
        detached: bool = False,  # noqa: ARG002 (what arrives is a copy of its own in any case)
        trace: Span | None = None,
    ) -> asyncio.Future[Outcome]:
        link = self._connected()
        number = next(self._numbers)
        carrier = "" if trace is None else trace.carrier
        message = Submission(number, row, voice, priority, deadline, owner, carrier).encode()
        future = link.request(number, message, deadline)
        future.add_done_callback(partial(link.cancel_if_abandoned, number))
        return future

    async def ask(self, kind: MessageKind, name: str = "") -> Any:
        """Send a request that is answered, and wait for that."""
        number = next(self._numbers)
        return await self._connected().request(
            number, wire.named(kind, number, name), self._default_deadline(Priority.NORMAL)
        )

    async def enter(self, caller: str) -> Callable[[], None]:
        """Count a request for its caller's limits; returns what is to be called when it ends."""
        number, link = next(self._numbers), self._connected()
        leave = partial(link.send, wire.named(MessageKind.LEAVE, number))
        try:
            await link.request(
                number, wire.named(MessageKind.ENTER, number, caller), self._default_deadline(Priority.NORMAL)
            )
        except BaseException:  # also when it was cancelled before the answer came
            leave()
            raise
        return leave

    def tell(self, kind: MessageKind) -> None:
        """Send what has no answer, unless there is nobody any more to whom it would matter."""
        if self._link:
            self._link.send(wire.named(kind, 0))

    def take_status(self, link: EngineConnection, status: dict[str, Any]) -> None:
        self.facts = status.pop("facts", self.facts)
        self._state = status.pop("state", self._state)
        self._status = status
        self._link = link
        self.condition.clear()
        self._greeted.set()

    def _connected(self) -> EngineConnection:
        if self._link is None:
            raise EngineUnavailable(GONE, retry_after=RETRY_AFTER)
        return self._link

    async def _stay_connected(self) -> None:
        while True:
            try:
                link = await self._connect()
            except OSError:
                await asyncio.sleep(CONNECT_INTERVAL)
                continue
            try:
                while not link.closed.done():
                    await asyncio.wait({link.closed}, timeout=WATCH_INTERVAL)
                    self._look_at(link)
            finally:
                self._link = None
                link.close()
            self.condition.set("the engine process has ended; until it is back, requests are answered with 503")

    def _look_at(self, link: EngineConnection) -> None:
        link.looks += 1
        if link.silent:
            self.condition.set("the engine process does not answer; it is restarted if that goes on")
            link.expire(self.now())

    async def _connect(self) -> EngineConnection:
        loop = asyncio.get_running_loop()
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.setblocking(False)
            connected.connect(str(self._path))
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await _readable(connected)
            _, fds, _, _ = socket.recv_fds(connected, 1, 1)  # the file of the shared memory comes with the first byte
            if not fds:
                raise ConnectionResetError("the engine process closed the connection")
            connection = partial(EngineConnection, self, AudioBufferView(fds[0]))
            _, link = await loop.create_unix_connection(connection, sock=connected)
        except BaseException:
            connected.close()
            raise
        return link


async def _readable(connected: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connected, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connected)


class EngineConnection(IpcConnection):
    """A connection to the engine process, and what waits for its answers."""

    def __init__(self, queue: RemoteQueue, view: AudioBufferView) -> None:
        super().__init__()
        self._queue = queue
        self._view = view
        self._waiting: dict[int, tuple[Answer, float]] = {}  # with its deadline
        self.looks = 0  # at whether it says something, since it did
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        waiting, self._waiting = self._waiting, {}
        for answer, _ in waiting.values():
            if not answer.done():
                answer.set_exception(EngineUnavailable(GONE, retry_after=RETRY_AFTER))
        self._view.close()
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def silent(self) -> bool:
        """Whether the engine process hangs, as it seems. By looks, not by the clock: this one may have been stopped."""
        return self.looks >= SILENT_LOOKS

    def expire(self, now: float) -> None:
        """Fail what is past its deadline, in place of an engine process that does not come to it."""
        late = [number for number, (_, deadline) in self._waiting.items() if deadline <= now]
        for number in late:
            if answer := self._pop(number):
                answer.set_exception(Expired("the engine process does not answer; try again later", retry_after=5.0))
                self.send(wire.named(MessageKind.CANCEL, number))

    def request(self, number: int, message: bytes, deadline: float) -> Answer:
        """Send a message; the future is the answer with the same number. It is the other side that keeps deadlines."""
        answer: Answer = asyncio.get_running_loop().create_future()
        if self._transport is None:
            answer.set_exception(EngineUnavailable(GONE, retry_after=RETRY_AFTER))
            return answer
        self._waiting[number] = answer, deadline
        self._transport.write(message)
        return answer

    def cancel_if_abandoned(self, number: int, answer: Answer) -> None:
        if answer.cancelled():
            self._waiting.pop(number, None)
            self.send(wire.named(MessageKind.CANCEL, number))

    def data_received(self, data: bytes) -> None:
        self.looks = 0
        for kind, body in self._frames.feed(data):
            if kind == MessageKind.OUTCOME:
                self._take_outcome(OutcomeHead.decode(body))
            elif kind == MessageKind.STATUS:
                self._queue.take_status(self, wire.read_document(body)[1])
            elif kind == MessageKind.REFRESH:
                self._queue.publish()
            elif answer := self._pop(wire.ID.unpack_from(body)[0]):
                if kind == MessageKind.FAILURE:
                    answer.set_exception(wire.read_failure(body))
                else:
                    answer.set_result(wire.read_document(body)[1] if kind == MessageKind.STATE else None)

    def _take_outcome(self, head: OutcomeHead) -> None:
        if answer := self._pop(head.id):
            result = self._view.take(head)
            answer.set_result(Outcome(result, head.queue_ms, head.inference_ms, head.batch_size, head.reason))
        if not head.audio & wire.INLINE:
            self.send(wire.named(MessageKind.RELEASE, head.offset))

    def _pop(self, number: int) -> Answer | None:
        """Who waits for the answer of that number, if somebody still does."""
        answer, _ = self._waiting.pop(number, (None, 0.0))
        return answer if answer and not answer.done() else None


class SharedLimits:
    """`CallerLimits` that the engine process counts for all fronts. Without limits nothing is asked."""

    def __init__(self, queue: RemoteQueue, *, limited: bool) -> None:
        self._queue = queue
        self._limited = limited

    async def enter(self, caller: str) -> Callable[[], None]:
        return await self._queue.enter(caller) if self._limited else _nothing

    async def count(self, caller: str) -> None:
        if self._limited:
            await self._queue.ask(MessageKind.COUNT, caller)


def _nothing() -> None:
    pass
