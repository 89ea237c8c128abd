"""The stations of a row: a submission to the queue, an entry that waits there, an outcome."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from kokoro_server.batching.beginnings import Beginnings
from kokoro_server.batching.clock import Timer
from kokoro_server.engine.protocol import Result, Row
from kokoro_server.errors import KokoroError

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span


class Priority(IntEnum):
    """The lane of an entry. Lower goes first. A lane that was skipped too often leads a batch (ageing)."""

    BYPASS = 0  # first pieces of a stream: no waiting window, next batch out
    NEXT = 1  # the pieces after those: no waiting window either, but their listeners still have audio to hear
    NORMAL = 2
    AHEAD = 3  # later pieces of a stream that are not needed yet; in time, each goes over into the lane it asked for
    BULK = 4


ALL = tuple(Priority)
URGENT = (Priority.BYPASS, Priority.NEXT, Priority.NORMAL, Priority.AHEAD)  # all but bulk: each has a listener


class FireReason(StrEnum):
    BYPASS = "bypass"
    FULL = "full"
    NEARLY_FULL = "nearly_full"
    DEVICE_FREE = "device_free"
    MAX_WAIT = "max_wait"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Deadline:
    """By when a text must start, on the queue's clock: as predicted when it asks to be let in, and then in fact.

    The second is the client's own limit, or none: what was let in is kept, however slow the machine becomes.
    """

    admission: float
    start: float

    def at_most(self, latest: float) -> Deadline:
        return Deadline(min(self.admission, latest), min(self.start, latest))

    def put_off(self, seconds: float) -> Deadline:
        return Deadline(self.admission + seconds, self.start + seconds)


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A row for the queue, and how to treat it. `detached` and `early` stay in their process."""

    row: Row
    voice: str  # canonical spec, by which entries are grouped
    priority: Priority
    deadline: float  # on the queue's clock: by when the row must have started
    caller: str  # whose turn it takes
    detached: bool = False  # the result may be held for long, so it must not keep its whole batch's buffer alive
    trace: Span | None = None  # the span that it is part of, if its request is traced
    # On the queue's clock: when its listener will have heard all audio before it. Until shortly before, it waits AHEAD.
    runs_out: float = -math.inf
    early: Beginnings[Outcome] | None = None  # for the beginning of its audio, if the engine gives that


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One row's audio and how it was made."""

    result: Result
    queue_ms: float
    inference_ms: float
    batch_size: int  # rows in the forward pass that made it
    fire_reason: FireReason


@dataclass(slots=True, eq=False)
class Entry:
    """A submitted row that waits for a device, with the future that its submitter awaits."""

    number: int  # counts arrivals, over all lanes
    caller: str
    row: Row
    voice: str
    priority: Priority
    frames: int  # predicted length of its audio
    arrival: float
    deadline: float  # later than the submission's if the entry had to wait for the model
    future: asyncio.Future[Outcome]
    detached: bool = False
    timer: Timer | None = None
    trace: Span | None = None  # of the row, from its arrival to its end
    overtaken: int = 0  # batches that took a later entry of its lane and not this one
    runs_out: float = -math.inf  # as its submission's
    needed_lane: Priority = Priority.NORMAL  # the lane of an AHEAD entry from when it is needed
    early: Beginnings[Outcome] | None = None  # as its submission's

    @property
    def tokens(self) -> int:
        return len(self.row.tokens)

    @property
    def done(self) -> bool:
        """Whether it was answered, expired or cancelled. Safe to read from the device thread."""
        return self.future.done()

    def resolve(self, outcome: Outcome) -> None:
        if not self.done:
            self.future.set_result(outcome)

    def fail(self, error: KokoroError) -> None:
        if not self.done:
            self.future.set_exception(error)

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
