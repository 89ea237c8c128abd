"""An API worker's end of the ipc: the queue of the engine process, as if it were in this process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_server.batching.entry import Outcome, Priority, Submission
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.batching.state import ModelSnapshot, QueueSnapshot
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import EngineUnavailable, Expired, KokoroError, TooBusy
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.background import cancel, logged_task
from kokoro_server.server.ipc import wire
from kokoro_server.server.ipc.engine_connection import EngineConnection, connect
from kokoro_server.server.ipc.wire import OWN_MODEL, Admit, EngineStatus, Greeting, MessageKind, ModelStatus

CONNECT_INTERVAL = 0.1  # seconds between two attempts to reach the engine process
STATE_TIMEOUT = 5.0
RETRY_AFTER = 5.0  # seconds; an engine process that died needs as long, or some more
WATCH_INTERVAL = 0.5  # seconds between two checks whether the engine process has sent anything
MAX_SENDS = 3  # of a message, each to another engine process: a row may be what ends them
GONE = "the engine process has ended and is being restarted; try again"

Answer = asyncio.Future[Any]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A message whose answer is awaited."""

    answer: Answer
    message: bytes
    deadline: float  # holds while the engine process is silent or away
    keeps: bool  # whether it is sent again, to the next engine process
    sends: int = 0


class RemoteQueue(SpeechQueue):
    """The queue of the engine process, and the `Receiver` of what that sends.

    While that process is away, texts and rows wait for the next one, until their deadlines.

    From `start` to `stop` it reconnects by itself. Rows whose audio has not come are sent again: to speak one twice
    does no harm.
    """

    def __init__(self, path: Path, options: BatchingOptions) -> None:
        self.options = options
        self._path = path
        self._numbers = itertools.count(1)
        self._connection: EngineConnection | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._stopped = False
        self._greeting: Greeting | None = None
        self._status = EngineStatus()
        self._snapshot: QueueSnapshot  # the last one received; set by the first greeting
        self.condition = Condition(Reason.ENGINE)
        self.publish: Callable[[], object] = lambda: None
        self.on_status: Callable[[], object] = lambda: None  # called for each status of the engine process
        self._greeted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the engine process has been reached."""
        self._task = logged_task(self._stay_connected())
        await self._greeted.wait()

    async def stop(self) -> None:
        self._stopped = True
        await cancel(self._task)
        self._fail(list(self._waiting), _gone())

    @property
    def greeting(self) -> Greeting:
        """The engine process's; raises EngineUnavailable before `start` has returned."""
        if self._greeting is None:
            raise EngineUnavailable(GONE, retry_after=RETRY_AFTER)
        return self._greeting

    @property
    def alive(self) -> bool:
        # An engine process without a device ends and is started again, while this process goes on.
        return True

    @property
    def ready(self) -> bool:
        return self._answers and self._status.ready

    @property
    def _answers(self) -> bool:
        return self._connection is not None and not self._connection.silent

    @property
    def max_rows(self) -> int:
        return self.greeting.max_rows

    def now(self) -> float:
        return time.monotonic()  # one clock for all processes of a machine

    def real_time_factor(self) -> float | None:
        return self._status.real_time_factor

    def device_states(self) -> dict[str, str]:
        devices = self._status.devices
        return devices if self._answers else dict.fromkeys(devices, "lost")

    def model_state(self) -> ModelSnapshot:
        """The last one received, but an engine process that has ended has no model."""
        model = self._status.model
        return model if self._connection else {**model, "state": "unloaded"}

    async def state(self) -> QueueSnapshot:
        try:
            async with asyncio.timeout(STATE_TIMEOUT):
                self._snapshot = await self.ask(MessageKind.ASK_STATE)
        except (EngineUnavailable, TimeoutError):
            last = self._snapshot
            status = last["queue_status"]
            return {
                **last,
                "status": "unhealthy",
                "queue_status": {**status, "current_size": 0, "running_rows": 0, "worker_running": False},
            }
        return self._snapshot

    def admission(self, ticket: Ticket | None = None) -> AbstractAsyncContextManager[None]:
        return self.admitted(ticket or self.ticket())

    @asynccontextmanager
    async def admitted(self, ticket: Ticket, model: str = OWN_MODEL) -> AsyncIterator[None]:
        """`admission`, by the queue of this model."""
        if self._connection is None and len(self._waiting) >= self.options.max_queue_size:
            waiting = f"{len(self._waiting)} texts and rows wait for it already"
            raise TooBusy(f"the engine process is being restarted, and {waiting}", retry_after=RETRY_AFTER)
        number = next(self._numbers)
        deadline = ticket.first_deadline.admission
        message = Admit(deadline, ticket.priority, ticket.caller, ticket.admitted, model).encode(number)
        try:
            await self._request(number, message, deadline)
            ticket.admitted = True
            yield
        finally:  # also when it was cancelled before the answer came
            self._leave(MessageKind.ARRIVED, number)

    def enqueue(self, submission: Submission, model: str = OWN_MODEL) -> asyncio.Future[Outcome]:
        number = next(self._numbers)
        outage = self.later_deadline().admission  # by when one must end: without an engine process, nothing goes on
        answer = self._request(number, wire.submit(number, submission, model), min(submission.deadline, outage))
        answer.add_done_callback(partial(self._cancel_if_abandoned, number))
        return answer

    def status_of(self, model: str) -> ModelStatus | None:
        """Of a model of MODELS_PATH; None if the engine process does not have it, or is away."""
        return self._status.models.get(model) if self._connection else None

    async def ask(self, kind: MessageKind, name: str = "") -> Any:
        """Raises EngineUnavailable while the engine process is away."""
        number = next(self._numbers)
        deadline = self._deadline(Priority.NORMAL).admission
        return await self._request(number, wire.named(kind, number, name), deadline, keeps=False)

    async def enter(self, caller: str) -> Callable[[], None]:
        """Count a request for its caller's limits; returns the function to call when it ends."""
        number = next(self._numbers)
        leave = partial(self._leave, MessageKind.LEAVE, number)
        try:
            await self._request(
                number, wire.named(MessageKind.ENTER, number, caller), self._deadline(Priority.NORMAL).admission
            )
        except BaseException:  # also when it was cancelled before the answer came
            leave()
            raise
        return leave

    def send(self, kind: MessageKind) -> None:
        """Send a message that has no answer. Without an engine process it is dropped."""
        if self._connection:
            self._connection.send(wire.named(kind, 0))

    def take_status(self, connection: EngineConnection, status: EngineStatus) -> None:
        if status.greeting:
            self._greeting, self._snapshot = status.greeting, status.greeting.snapshot
        self._status = status
        self._connection = connection
        self.condition.clear()
        self.on_status()
        self._greeted.set()
        if status.greeting:  # the first message of a new engine process
            for waiting in self._waiting.values():
                waiting.sends += 1
                connection.send(waiting.message)

    def take_answer(self, number: int) -> Answer | None:
        waiting = self._waiting.pop(number, None)
        return waiting.answer if waiting and not waiting.answer.done() else None

    def lose(self, connection: EngineConnection) -> None:
        if connection is self._connection:
            self._connection = None
            lost = [n for n, waiting in self._waiting.items() if not waiting.keeps or waiting.sends >= MAX_SENDS]
            self._fail(lost, _gone())

    def _request(self, number: int, message: bytes, deadline: float, *, keeps: bool = True) -> Answer:
        """Send a message; the future gets the answer with the same number.

        The engine process enforces the deadline; `_expire` does so while that process is silent or away.
        """
        waiting = _Waiting(asyncio.get_running_loop().create_future(), message, deadline, keeps)
        if self._connection:
            self._connection.send(message)
            waiting.sends = 1
        elif self._stopped or not keeps:
            waiting.answer.set_exception(_gone())
            return waiting.answer
        self._waiting[number] = waiting
        return waiting.answer

    def _leave(self, kind: MessageKind, number: int) -> None:
        self._waiting.pop(number, None)
        if self._connection:
            self._connection.send(wire.named(kind, number))

    def _cancel_if_abandoned(self, number: int, answer: Answer) -> None:
        if answer.cancelled():
            self._leave(MessageKind.CANCEL, number)

    def _expire(self, error: KokoroError) -> None:
        """Fail requests past their deadlines, as an engine process that is silent or away does not do so."""
        now = self.now()
        late = [number for number, waiting in self._waiting.items() if waiting.deadline <= now]
        self._fail(late, error)
        for number in late if self._connection else ():
            self._leave(MessageKind.CANCEL, number)

    def _fail(self, numbers: list[int], error: KokoroError) -> None:
        for number in numbers:
            if answer := self.take_answer(number):
                answer.set_exception(error)

    async def _stay_connected(self) -> None:
        while True:
            try:
                connection = await connect(self._path, self)
            except OSError:
                self._expire(_gone())
                await asyncio.sleep(CONNECT_INTERVAL)
                continue
            try:
                while not connection.closed.done():
                    await asyncio.wait({connection.closed}, timeout=WATCH_INTERVAL)
                    self._check(connection)
            finally:
                self.lose(connection)
                connection.close()
            self.condition.set("the engine process has ended; requests wait until it is back")

    def _check(self, connection: EngineConnection) -> None:
        connection.checks += 1
        if connection.silent:
            self.condition.set("the engine process does not answer; it is restarted if that goes on")
            self._expire(Expired("the engine process does not answer; try again later", retry_after=5.0))


def _gone() -> EngineUnavailable:
    return EngineUnavailable(GONE, retry_after=RETRY_AFTER)


class SharedLimits:
    """`CallerLimits` that the engine process counts for all API workers. Without limits it is not asked."""

    def __init__(self, queue: RemoteQueue, *, limited: bool) -> None:
        self._queue = queue
        self._limited = limited

    async def enter(self, caller: str) -> Callable[[], None]:
        return await self._queue.enter(caller) if self._limited else lambda: None

    async def count(self, caller: str) -> None:
        if self._limited:
            await self._queue.ask(MessageKind.COUNT, caller)
