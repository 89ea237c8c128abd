"""The queue of a model that is loaded when it is first spoken with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

from kokoro_server.batching.clock import LoopClock
from kokoro_server.batching.entry import Outcome, Submission
from kokoro_server.batching.model_slots import ModelSlot, ModelSlots
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.batching.state import ModelSnapshot, QueueSnapshot
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import EngineUnavailable, TooBusy

RETRY_AFTER = 5.0  # seconds

LoadState = Literal["unloaded", "loading", "loaded", "unloading", "failed"]


class LazyQueue(SpeechQueue):
    """`start` loads the model and returns its queue, which has the slot. If it fails, the next request tries again.

    Requests wait for the model, and their deadlines are put off by that.
    """

    def __init__(
        self,
        name: str,
        options: BatchingOptions,
        slots: ModelSlots,
        start: Callable[[ModelSlot], Awaitable[BatchQueue]],
    ) -> None:
        self.options = options
        self._name = name
        self._slot = ModelSlot(slots)
        self._start = start
        self._clock = LoopClock()
        self._queue: BatchQueue | None = None
        self._starting: asyncio.Future[BatchQueue] | None = None
        self._waiting = 0
        self._failed = False
        self._stopped = False

    @property
    def load_state(self) -> LoadState:
        if self._queue is not None:
            state: LoadState = self._queue.model_state()["state"]  # type: ignore[assignment]
            return state
        return "loading" if self._starting is not None else "failed" if self._failed else "unloaded"

    @property
    def loaded(self) -> BatchQueue | None:
        """The queue, if the model has been loaded."""
        return self._queue

    @property
    def alive(self) -> bool:
        return self._queue is None or self._queue.alive

    @property
    def ready(self) -> bool:
        return self._queue is None or self._queue.ready

    @property
    def max_rows(self) -> int:
        return self._queue.max_rows if self._queue else 1

    def now(self) -> float:
        return self._clock.now()

    def real_time_factor(self) -> float | None:
        return self._queue.real_time_factor() if self._queue else None

    def speaks_early(self) -> bool:
        return self._queue is not None and self._queue.speaks_early()

    def device_states(self) -> dict[str, str]:
        return self._queue.device_states() if self._queue else {}

    def model_state(self) -> ModelSnapshot:
        return self._queue.model_state() if self._queue else {"state": self.load_state}

    async def state(self) -> QueueSnapshot:
        return await (await self.started()).state()

    @asynccontextmanager
    async def admission(self, ticket: Ticket | None = None) -> AsyncIterator[None]:
        ticket = ticket or self.ticket()
        before = self.now()
        queue = await self.started()
        ticket.first_deadline = ticket.first_deadline.put_off(self.now() - before)
        async with queue.admission(ticket):
            yield

    def enqueue(self, submission: Submission) -> asyncio.Future[Outcome]:
        if self._queue is None:
            return asyncio.ensure_future(self._enqueue_when_loaded(submission))
        return self._queue.enqueue(submission)

    async def _enqueue_when_loaded(self, submission: Submission) -> Outcome:
        """For a row of a text that another process let in, which has ended."""
        before = self.now()
        queue = await self.started()
        return await queue.enqueue(replace(submission, deadline=submission.deadline + self.now() - before))

    async def started(self) -> BatchQueue:
        """The queue, once the model is loaded. A client that leaves meanwhile does not stop that."""
        if self._queue is not None:
            return self._queue
        if self._stopped:
            raise self._unavailable()
        if self._waiting >= self.options.max_queue_size:
            raise TooBusy(f"{self._waiting} texts wait for the model {self._name} already", retry_after=RETRY_AFTER)
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._started())
            self._starting.add_done_callback(lambda done: done.cancelled() or done.exception())  # counts as retrieved
        starting = self._starting
        self._waiting += 1
        try:
            await asyncio.wait({starting})
        finally:
            self._waiting -= 1
        if starting.cancelled():
            raise self._unavailable()
        return starting.result()

    async def _started(self) -> BatchQueue:
        try:
            await self._slot.take()
            self._failed = True
            self._queue = await self._start(self._slot)
            self._failed = False
            return self._queue
        except BaseException:
            self._slot.give_back()
            raise
        finally:
            self._starting = None

    def _unavailable(self) -> EngineUnavailable:
        return EngineUnavailable(f"the model {self._name} is not loaded", retry_after=RETRY_AFTER)

    async def stop(self) -> None:
        """Does not wait for a model that is being loaded. Who waits for it gets EngineUnavailable."""
        self._stopped = True
        if self._starting is not None:
            self._starting.cancel()
        if self._queue is not None:
            await self._queue.stop()
