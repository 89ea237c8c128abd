"""Measures when the device works, by CUDA events on the stream. Nothing here waits for the device."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from kokoro_server.engine.protocol import Gap

MOST_GAPS = 64  # kept for a thread that does not collect them


@dataclass(frozen=True, slots=True, eq=False)
class StreamStep:
    """Work on the stream between two events."""

    start: torch.cuda.Event
    end: torch.cuda.Event
    queued: float  # when, by time.monotonic()
    gaps: deque[Gap] | None  # gets the gap before this step, if it is the first of a pass


class StreamActivity:
    """Adds up the steps of a stream, and records the gaps between passes. A pass is a text step and a decode step.

    The time between the two, in which the host reads the number of frames, is no work; neither are copies. A step that
    is launched kernel by kernel counts as a whole.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._queued: deque[StreamStep] = deque()
        self._spare: list[torch.cuda.Event] = []
        self._last_end: torch.cuda.Event | None = None
        self._busy_ms = 0.0
        self._lock = threading.Lock()  # held while steps that have ended are added up
        self._mine = threading.local()

    @contextmanager
    def step(self, *, first: bool = False) -> Iterator[None]:
        """Measure the work queued inside as one step. `first`: it is the first step of a pass."""
        start, queued = self._record(), time.monotonic()
        yield
        self._queued.append(StreamStep(start, self._record(), queued, self._my_gaps() if first else None))

    def collect(self) -> None:
        """Add up the steps that have ended. Call it now and then, best when a pass has just ended."""
        with self._lock:
            while self._queued and self._queued[0].end.query():  # type: ignore[no-untyped-call]
                self._add(self._queued.popleft())

    def busy_seconds(self) -> float:
        """As of the last `collect`."""
        return self._busy_ms / 1000

    def take_gaps(self) -> list[Gap]:
        """Return, once, the gaps before the passes of the calling thread."""
        mine = self._my_gaps()
        gaps = list(mine)
        mine.clear()
        return gaps

    def _add(self, step: StreamStep) -> None:
        self._busy_ms += step.start.elapsed_time(step.end)
        if self._last_end is not None:
            if step.gaps is not None:
                seconds = self._last_end.elapsed_time(step.start) / 1000
                # An idle stream begins queued work at once. A busy one has no gap.
                step.gaps.append(Gap(step.queued - seconds, seconds))
            self._spare.append(self._last_end)
        self._spare.append(step.start)
        self._last_end = step.end

    def _record(self) -> torch.cuda.Event:
        try:
            event = self._spare.pop()
        except IndexError:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(self._stream)
        return event

    def _my_gaps(self) -> deque[Gap]:
        gaps: deque[Gap] | None = getattr(self._mine, "gaps", None)
        if gaps is None:
            gaps = self._mine.gaps = deque(maxlen=MOST_GAPS)
        return gaps
