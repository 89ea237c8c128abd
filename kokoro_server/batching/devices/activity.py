"""Busy time of a device, its recent share, and the gaps in which it idled."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from kokoro_server.batching.clock import Clock
from kokoro_server.engine.protocol import Gap

WINDOW = 10.0  # seconds of the recent past, of which a busy share is taken
SAMPLE_PERIOD = 0.25  # seconds between two samples of the busy time, at least


class CallActivity:
    """`ReportsActivity` of an engine that works just while it is called. Calls may overlap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running = 0
        self._busy = 0.0  # seconds, without those since `_changed`
        self._changed = clock.now()  # when it last began or ended to work
        self._mine = threading.local()
        self._last_ended = float("-inf")

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A call of the engine, in the thread that makes it."""
        with self._lock:
            if not self._running:
                now = self._clock.now()
                self._mine.gaps = [*getattr(self._mine, "gaps", []), Gap(self._changed, now - self._changed)]
                self._changed = now
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    now = self._clock.now()
                    self._busy += now - self._changed
                    self._changed = now

    def service_seconds(self, started: float, ended: float) -> float:
        """Seconds of a call that has ended, without the time in which the engine was still at the call before."""
        seconds = ended - max(started, self._last_ended)
        self._last_ended = ended
        return seconds

    def busy_seconds(self) -> float:
        with self._lock:
            return self._busy + (self._clock.now() - self._changed if self._running else 0.0)

    def take_gaps(self) -> list[Gap]:
        gaps: list[Gap] = getattr(self._mine, "gaps", [])
        self._mine.gaps = []
        return gaps


class BusyShare:
    """The share of the last seconds that a device worked, from samples of its busy time."""

    def __init__(self, now: float) -> None:
        self._samples = deque([(now, 0.0)])  # the first is older than WINDOW as soon as one is

    def sample(self, now: float, busy_seconds: float) -> None:
        if now - self._samples[-1][0] < SAMPLE_PERIOD:
            return
        self._samples.append((now, busy_seconds))
        while self._samples[1][0] <= now - WINDOW:
            self._samples.popleft()

    def value(self, now: float, busy_seconds: float) -> float:
        points = [*self._samples, (now, busy_seconds)]
        since = max(points[0][0], now - WINDOW)
        if since >= now:
            return 0.0
        (left, before), (right, after) = next(pair for pair in pairwise(points) if pair[1][0] > since)
        then = before + (after - before) * (since - left) / (right - left)
        return min(1.0, (busy_seconds - then) / (now - since))


def percentiles(values: Sequence[float], ranks: Sequence[int] = (50, 95, 99)) -> dict[str, float]:
    """By nearest rank, as p50, p95 and p99; zeros for no values."""
    ordered = sorted(values) or [0.0]
    last = len(ordered) - 1
    return {f"p{rank}": round(ordered[round(last * rank / 100)], 3) for rank in ranks}
