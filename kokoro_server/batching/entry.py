"""What waits in the queue, and what comes out of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from kokoro_server.batching.clock import Timer
from kokoro_server.engine.protocol import Result, Row
from kokoro_server.errors import KokoroError


class Priority(IntEnum):
    """Lower goes first. A lane that is passed over too often leads a batch all the same."""

    BYPASS = 0  # first pieces of a stream: no waiting window, next batch out
    NEXT = 1  # those after it: no waiting window either, but their listeners have something to hear
    NORMAL = 2
    BULK = 3


class FireReason(StrEnum):
    """Why a batch went to the device when it did."""

    BYPASS = "bypass"
    FULL = "full"
    NEARLY_FULL = "nearly_full"
    DEVICE_FREE = "device_free"
    MAX_WAIT = "max_wait"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One row's audio and how it came about."""

    result: Result
    queue_ms: float
    inference_ms: float
    batch_size: int  # rows in the forward pass that made it
    fire_reason: FireReason


@dataclass(slots=True, eq=False)
class Entry:
    """One row waiting for the device, with the future its submitter awaits."""

    number: int  # of arrival
    row: Row
    voice: str
    priority: Priority
    frames: int  # predicted
    arrival: float
    deadline: float
    future: asyncio.Future[Outcome]
    timer: Timer | None = None
    skips: int = 0  # batches that overtook it

    @property
    def tokens(self) -> int:
        return len(self.row.tokens)

    @property
    def gone(self) -> bool:
        """Nobody waits for it any more: answered, expired or cancelled. Safe to ask from the device thread."""
        return self.future.done()

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def fail(self, error: KokoroError) -> None:
        if not self.gone:
            self.future.set_exception(error)
