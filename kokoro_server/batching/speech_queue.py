"""A queue as requests see it: rows in, audio out. The devices behind it are in this process or in another."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager

from kokoro_server.batching.entry import Deadline, Outcome, Priority, Submission
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.state import ModelSnapshot, QueueSnapshot
from kokoro_server.batching.tickets import Rows, Ticket, in_order
from kokoro_server.callers.current import caller
from kokoro_server.engine.protocol import Row
from kokoro_server.observability import tracing

TICKET_BATCHES = 2  # batches' worth of its pieces that a ticket keeps in the queue


class SpeechQueue(ABC):
    """The queue that `Synthesizer` and the endpoints use. Create and use it on one event loop.

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
        """Seconds of computing for a second of audio, as the slowest engine measured them when it was loaded.

        It stays the same, whatever else the machine does, as streams are cut by it. None if no engine measures it.
        """

    def speaks_early(self) -> bool:
        """Whether engines give the beginning of a row before the rest is made: see `SpeaksEarly`."""
        return False

    @abstractmethod
    def device_states(self) -> dict[str, str]:
        """By device: healthy, degraded or lost."""

    @abstractmethod
    def model_state(self) -> ModelSnapshot: ...

    @abstractmethod
    async def state(self) -> QueueSnapshot: ...

    @abstractmethod
    def admission(self, ticket: Ticket | None = None) -> AbstractAsyncContextManager[None]:
        """Enter before any work on a text; leave when its first row is ready to submit.

        Raises TooBusy, with the time to retry after, when the queue is full, the predicted wait is past the deadline,
        or the caller has too much in the queue. Inside, the text counts as being prepared, and an idle device waits a
        little for it.
        """

    @abstractmethod
    def enqueue(self, submission: Submission) -> asyncio.Future[Outcome]: ...

    async def submit(
        self, row: Row, *, voice: str, priority: Priority = Priority.NORMAL, deadline: float | None = None
    ) -> Outcome:
        """Wait for the audio of a row that belongs to no ticket."""
        until = self._deadline(priority, deadline).start
        return await self.enqueue(Submission(row, voice, priority, until, caller.get(), trace=tracing.current()))

    def ticket(
        self,
        *,
        priority: Priority = Priority.NORMAL,
        bypass: int = 0,
        urgent: int = 1,
        deadline: float | None = None,
        ahead: int | None = None,
    ) -> Ticket:
        """A request of one or more texts. Each `submit_all` takes it: together they keep to the limit of one ticket.

        The first `bypass` pieces of each text have no waiting window, and the first `urgent` of those go before all
        other entries. `ahead` limits the pieces in the queue or made and not yet taken; by default it is two batches'
        worth for every device.
        """
        return Ticket(
            priority,
            bypass,
            urgent,
            first_deadline=self._deadline(priority, deadline),
            permits=asyncio.Semaphore(ahead or TICKET_BATCHES * self.max_rows),
            caller=caller.get(),
            trace=tracing.current(),
        )

    def submit_all(
        self, rows: Rows, *, voice: str | Callable[[int], str], ticket: Ticket | None = None
    ) -> AsyncGenerator[Outcome, None]:
        """The outcomes of a long text's rows, in order. Close the generator to abandon the rest.

        `voice` is that of all rows, or returns the voice of the row with that index. The time of a later piece begins
        when it is enqueued.
        """
        owner = ticket or self.ticket()

        def enqueue(index: int, row: Row) -> asyncio.Future[Outcome]:
            spec = voice if isinstance(voice, str) else voice(index)
            # Pieces are held until those before them have been taken, which a slow reader does slowly.
            until = self.later_deadline()
            return self.enqueue(owner.submission(row, spec, until, self.now(), index=index, detached=True))

        return in_order(rows, enqueue, owner.permits)

    async def submit_only(self, row: Row, voice: str, ticket: Ticket) -> Outcome:
        """`submit_all` for a text that is a single row."""
        async with ticket.permits:
            return await self.enqueue(ticket.submission(row, voice, self.later_deadline(), self.now()))

    def later_deadline(self) -> Deadline:
        """The deadline of a later piece that is enqueued now."""
        return self._deadline(Priority.BULK)

    def _deadline(self, priority: Priority, latest: float | None = None) -> Deadline:
        """From now on; `latest`: the client's own."""
        allowed = self.options.job_timeout if priority is Priority.BULK else self.options.queue_timeout
        deadline = Deadline(self.now() + allowed, math.inf)
        return deadline if latest is None else deadline.at_most(latest)
