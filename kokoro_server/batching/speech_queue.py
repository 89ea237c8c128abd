"""A queue as requests see it: rows in, audio out. The devices behind it are in this process or in another."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kokoro_server.batching.entry import Outcome, Priority
from kokoro_server.batching.jobs import Rows, in_order
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.callers.current import caller
from kokoro_server.engine.protocol import Row
from kokoro_server.observability import tracing

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span

JOB_BATCHES = 2  # batches' worth of its pieces that a job keeps in the queue


@dataclass(slots=True, eq=False)
class Ticket:
    """Pieces that belong to one request: they share its priority, its first deadline and its part of the queue."""

    priority: Priority
    bypass: int  # first pieces of each text, which have no waiting window
    urgent: int  # how many of those take the BYPASS lane; the others take NEXT
    first_deadline: float  # of the first piece alone: the clock of a later one starts when it is enqueued
    permits: asyncio.Semaphore  # one for each piece in the queue, or made and not yet taken
    caller: str  # whose turns its pieces take
    trace: Span | None = None  # the step that its pieces are part of
    admitted: bool = False  # whether one of its texts has been
    begun: bool = False  # whether the first piece has been enqueued

    @property
    def bulk(self) -> bool:
        """Whether even its first piece goes behind all others: so does its text, while it is read."""
        return self.lane(0) is Priority.BULK

    def lane(self, index: int) -> Priority:
        """The lane of the piece of that number, counted from 0, of one of its texts."""
        if index < self.bypass:
            return Priority.BYPASS if index < self.urgent else Priority.NEXT
        return self.priority


class SpeechQueue(ABC):
    """What `Synthesizer` and the endpoints use. Create and use it on one event loop.

    Deadlines are on the clock of `now()` and bound the wait, not the run: an entry that has not started by then fails
    with Expired. Cancelling the task that awaits an entry takes the entry out of the queue.
    """

    options: BatchingOptions

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Liveness: false when only a restart of the process can help."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Readiness: whether rows are taken."""

    @property
    @abstractmethod
    def max_rows(self) -> int:
        """The rows that all devices together can run at once."""

    @abstractmethod
    def now(self) -> float: ...

    @abstractmethod
    def real_time_factor(self) -> float | None:
        """Seconds of computing for a second of audio, of a row that runs alone; None if no engine has measured it."""

    @abstractmethod
    def device_states(self) -> dict[str, str]:
        """By device: healthy, degraded or lost."""

    @abstractmethod
    def model_state(self) -> dict[str, Any]:
        """Whether the model is in memory, or what becomes of it; the keys are part of the API."""

    @abstractmethod
    async def state(self) -> dict[str, Any]:
        """The state of the queue for the health page; the keys are part of the API."""

    @abstractmethod
    def admission(self, job: Ticket | None = None) -> AbstractAsyncContextManager[None]:
        """Enter before any work on a text; leave when its first row is ready to submit.

        Raises TooBusy, with the time to retry after, when the queue is full, the predicted wait is past the deadline,
        or the caller has too much in the queue. Inside, the text counts as on its way, and an idle device waits a
        little for it.
        """

    @abstractmethod
    def enqueue(
        self,
        row: Row,
        voice: str,
        priority: Priority,
        deadline: float,
        owner: str,
        *,
        detached: bool = False,
        trace: Span | None = None,
    ) -> asyncio.Future[Outcome]:
        """Take a row of the caller `owner`. `detached`: its result may be held for long.

        `trace` is what it is part of, if that is traced.
        """

    async def submit(
        self, row: Row, *, voice: str, priority: Priority = Priority.NORMAL, deadline: float | None = None
    ) -> Outcome:
        """Wait for the row's audio. `voice` is its canonical spec, by which entries are grouped."""
        allowed = self._default_deadline(priority)
        until = allowed if deadline is None else min(allowed, deadline)
        return await self.enqueue(row, voice, priority, until, caller.get(), trace=tracing.current())

    def job(
        self,
        *,
        priority: Priority = Priority.NORMAL,
        bypass: int = 0,
        urgent: int = 1,
        deadline: float | None = None,
        ahead: int | None = None,
    ) -> Ticket:
        """A request of one or more texts, to be given to each `submit_job`: together they keep to one job's limit.

        The first `bypass` pieces of each text have no waiting window, and the first `urgent` of those go before all
        others. `ahead` is the limit of pieces in the queue or made and not yet taken; by default two batches' worth
        for every device.
        """
        latest = math.inf if deadline is None else deadline
        return Ticket(
            priority,
            bypass,
            urgent,
            first_deadline=min(latest, self._default_deadline(priority)),
            permits=asyncio.Semaphore(ahead or JOB_BATCHES * self.max_rows),
            caller=caller.get(),
            trace=tracing.current(),
        )

    def submit_job(
        self, rows: Rows, *, voice: str | Callable[[int], str], job: Ticket | None = None
    ) -> AsyncGenerator[Outcome, None]:
        """The outcomes of a long text's rows, in order. Close the generator to abandon the rest.

        `voice` is that of all rows, or tells it for the row of each number, counted from 0.

        Only about two batches' worth of a job's pieces, for every device, wait at once. The first must start within
        the queue timeout, each other within the job timeout of when it was enqueued.
        """
        owner = job or self.job()

        def enqueue(index: int, row: Row) -> asyncio.Future[Outcome]:
            spec = voice if isinstance(voice, str) else voice(index)
            # Pieces are held until those before them have been taken, which a slow reader does slowly.
            return self.enqueue(
                row, spec, owner.lane(index), self._deadline(owner), owner.caller, detached=True, trace=owner.trace
            )

        return in_order(rows, enqueue, owner.permits)

    async def submit_only(self, row: Row, voice: str, job: Ticket) -> Outcome:
        """`submit_job` for a text that is a single row."""
        async with job.permits:
            return await self.enqueue(row, voice, job.lane(0), self._deadline(job), job.caller, trace=job.trace)

    def later_deadline(self) -> float:
        """The deadline of a later piece that is enqueued now."""
        return self._default_deadline(Priority.BULK)

    def _deadline(self, job: Ticket) -> float:
        """The deadline of the job's next piece. Its client may have listened for an hour since the first one."""
        if job.begun:
            return self.later_deadline()
        job.begun = True
        return job.first_deadline

    def _default_deadline(self, priority: Priority) -> float:
        bulk = priority is Priority.BULK
        return self.now() + (self.options.job_timeout if bulk else self.options.queue_timeout)
