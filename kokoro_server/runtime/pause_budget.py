"""How long those who cannot wait may keep others waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAUSED_SHARE = 0.1  # of the time, in which others may be paused: their work goes on whatever comes
PAUSED_AT_ONCE = 0.25  # seconds of it that may be saved up
PAUSED_TOO_LONG = 0.05  # seconds beyond it that are made good, at most: one slow batch is not paid for by many


class PauseBudget:
    """How long others may still be paused. Used by one thread at a time, for one pause at a time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left = PAUSED_AT_ONCE
        self._at = now()
        self._paused = False

    def begin(self) -> bool:
        """Whether they may be paused from here to `end`."""
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
        """Whether they may be paused in here."""
        try:
            yield self.begin()
        finally:
            self.end()
