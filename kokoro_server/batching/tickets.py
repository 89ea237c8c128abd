"""The pieces of one request: few of them in the queue at once, their audio in order."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kokoro_server.batching.beginnings import Beginnings
from kokoro_server.batching.entry import Deadline, Outcome, Priority, Submission
from kokoro_server.engine.protocol import Row
from kokoro_server.runtime.background import cancel
from kokoro_server.text.pace import SECONDS_PER_PHONEME

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span

Rows = Iterable[Row] | AsyncIterable[Row]
Enqueue = Callable[[int, Row], asyncio.Future[Outcome]]
Pending = asyncio.Queue[asyncio.Future[Outcome] | None]  # None: no more will follow


class Playback:
    """How long the listener of a stream has something to hear, if he hears audio as soon as it is there."""

    def __init__(self) -> None:
        self._until: float | None = None  # when he will have heard all that he was given; None before the first audio
        self._expected: deque[float] = deque()  # seconds of the pieces that are being made, about

    def expect(self, row: Row, now: float) -> float:
        """A piece is enqueued. Returns when the listener will have heard everything before it, at the earliest."""
        runs_out = max(self._until or now, now) + sum(self._expected)
        self._expected.append(SECONDS_PER_PHONEME * len(row.tokens) / row.speed)
        return runs_out

    def add(self, seconds: float, now: float, *, piece: bool = True) -> None:
        """The listener gets this much audio: of the next `piece`, or of a pause."""
        if piece and self._expected:
            self._expected.popleft()
        self._until = max(self._until or now, now) + seconds


@dataclass(slots=True, eq=False)
class Ticket:
    """Pieces that belong to one request: they share its priority, its first deadline and its part of the queue."""

    priority: Priority
    bypass: int  # first pieces of each text, which have no waiting window
    urgent: int  # how many of those take the BYPASS lane; the rest take NEXT
    first_deadline: Deadline  # of the first piece alone: the clock of a later one starts when it is enqueued
    permits: asyncio.Semaphore  # one for each piece in the queue, or made and not yet taken
    caller: str  # whose turns its pieces take
    trace: Span | None = None  # the step that its pieces are part of
    admitted: bool = False  # whether one of its texts has been
    begun: bool = False  # whether the first piece has been enqueued
    playback: Playback | None = None  # of a stream
    early: Beginnings[Outcome] | None = None  # for the beginning of its first piece

    @property
    def bulk(self) -> bool:
        """Whether even its first piece goes behind all other lanes. G2P then reads its text behind other texts too."""
        return self.lane(0) is Priority.BULK

    def lane(self, index: int) -> Priority:
        """The lane of the piece with that index in one of its texts."""
        if index < self.bypass:
            return Priority.BYPASS if index < self.urgent else Priority.NEXT
        return self.priority

    def submission(
        self, row: Row, voice: str, later_deadline: Deadline, now: float, *, index: int = 0, detached: bool = False
    ) -> Submission:
        """The next piece to enqueue. A later piece has its own deadline: its client may have listened for an hour.

        A later piece of a stream is in the BYPASS lane only because it may be needed at once. Often it is not.
        """
        deadline = later_deadline if self.begun else self.first_deadline
        self.begun = True
        early, self.early = self.early, None
        lane, runs_out = self.lane(index), -math.inf
        if self.playback is not None:
            heard = self.playback.expect(row, now)
            runs_out = heard if index and lane is Priority.BYPASS else runs_out
        return Submission(row, voice, lane, deadline.start, self.caller, detached, self.trace, runs_out, early)


async def in_order(rows: Rows, enqueue: Enqueue, permits: asyncio.Semaphore) -> AsyncGenerator[Outcome, None]:
    """The outcomes of `rows`, in order. `enqueue(index, row)` is called ahead, as far as `permits` allow.

    If a row fails, or `rows` itself, the error is raised when its turn comes. Then, or when the generator is closed,
    every piece still in the queue is cancelled.
    """
    ahead: Pending = asyncio.Queue()
    feeder = asyncio.create_task(_feed(rows, enqueue, permits, ahead))
    current: asyncio.Future[Outcome] | None = None
    try:
        while (current := await ahead.get()) is not None:
            outcome = await current
            current = None
            permits.release()
            yield outcome
            del outcome  # its audio must not be held while the next piece is made
        await feeder
    finally:
        await cancel(feeder)
        for piece in _unfinished(current, ahead):
            if not piece.cancel() and not piece.cancelled():
                piece.exception()  # retrieved, so that asyncio does not log that it never was
            permits.release()


async def _feed(rows: Rows, enqueue: Enqueue, permits: asyncio.Semaphore, ahead: Pending) -> None:
    index = 0
    try:
        async with aclosing(_iterate(rows)) as source:
            async for row in source:
                await permits.acquire()
                try:
                    ahead.put_nowait(enqueue(index, row))
                except BaseException:
                    permits.release()
                    raise
                index += 1
    finally:
        ahead.put_nowait(None)


async def _iterate(rows: Rows) -> AsyncGenerator[Row, None]:
    if isinstance(rows, Iterable):
        for row in rows:
            yield row
        return
    try:
        async for row in rows:
            yield row
    finally:
        if isinstance(rows, AsyncGenerator):
            await rows.aclose()


def _unfinished(current: asyncio.Future[Outcome] | None, ahead: Pending) -> Iterable[asyncio.Future[Outcome]]:
    if current is not None:
        yield current
    while not ahead.empty():
        piece = ahead.get_nowait()
        if piece is not None:
            yield piece
