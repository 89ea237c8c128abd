"""How long urgent work may keep the rest waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAUSED_SHARE = 0.1  # of the time in which the rest may be paused: it always goes on
PAUSED_AT_ONCE = 0.25  # seconds of pause that may be saved up
PAUSED_TOO_LONG = 0.05  # seconds of overdraft that count, at most: later batches do not pay for one slow batch


class PauseBudget:
    """The time that is left for pauses. For one thread at a time, and one pause at a time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left = PAUSED_AT_ONCE
        self._at = now()
        self._paused = False

    def begin(self) -> bool:
        """Whether the rest may be paused from here to `end`."""
        now = self._now()
        self._left = min(PAUSED_AT_ONCE, self._left + PAUSED_SHARE * (now - self._at))
        self._at, self._paused = now, self._left > 0
        return self._paused

    def end(self) -> None:
        if self._paused:
            self._left = max(self._left - (self._now() - self._at), -PAUSED_TOO_LONG)
            self._paused = False

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """Whether the rest may be paused within the block."""
        try:
            yield self.begin()
        finally:
            self.end()
