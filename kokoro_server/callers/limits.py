"""Limits for each caller: requests a minute, and requests at once."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kokoro_server.errors import RateLimited, TooManyAtOnce

MINUTE = 60.0  # seconds
MAX_CALLERS = 10_000  # that are remembered; beyond it, the one that was away longest is forgotten
TOLERANCE = 1e-6  # seconds; the sum of many intervals is not exact


class RateLimit:
    """A token bucket for each caller: it holds a minute's requests, and they come back evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = MINUTE / per_minute  # seconds until one request comes back
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when the bucket of a caller will be full again

    def take(self, caller: str) -> float:
        """Take one request out of the bucket. Returns the seconds until it has one, if it is empty, else 0."""
        now = self._clock()
        full_at = max(self._full_at.get(caller, now), now)
        missing = full_at + self._interval - now - MINUTE
        if missing <= TOLERANCE:
            full_at += self._interval
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        if len(self._full_at) > MAX_CALLERS:
            self._full_at.popitem(last=False)
        return missing if missing > TOLERANCE else 0.0


class CallerCounts:
    """`RATE_LIMIT` and `MAX_CONCURRENT_REQUESTS`; 0 is no limit."""

    def __init__(self, per_minute: int, at_once: int) -> None:
        self._per_minute = per_minute
        self._at_once = at_once
        self._rate = RateLimit(per_minute) if per_minute else None
        self._running: Counter[str] = Counter()

    def enter(self, caller: str) -> None:
        """A request begins. Raises RateLimited or TooManyAtOnce."""
        if self._at_once and self._running[caller] >= self._at_once:
            raise TooManyAtOnce(
                f"more than the {self._at_once} requests that each caller may have running (MAX_CONCURRENT_REQUESTS)",
                retry_after=1,
            )
        self.count(caller)
        if self._at_once:
            self._running[caller] += 1

    def count(self, caller: str) -> None:
        """Count a request. Raises RateLimited."""
        if self._rate and (wait := self._rate.take(caller)):
            raise RateLimited(
                f"more than the {self._per_minute} requests a minute that each caller may make (RATE_LIMIT)",
                retry_after=wait,
            )

    def leave(self, caller: str) -> None:
        """A request that had entered ends."""
        if self._at_once:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]


class CallerLimits(Protocol):
    """`CallerCounts` of this process or of another."""

    async def enter(self, caller: str) -> Callable[[], None]:
        """Returns a function to call when the request ends."""

    async def count(self, caller: str) -> None: ...


class LocalLimits:
    """`CallerCounts` of this process."""

    def __init__(self, limits: CallerCounts) -> None:
        self._limits = limits

    async def enter(self, caller: str) -> Callable[[], None]:
        self._limits.enter(caller)
        return partial(self._limits.leave, caller)

    async def count(self, caller: str) -> None:
        self._limits.count(caller)
