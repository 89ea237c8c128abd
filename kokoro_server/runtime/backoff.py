"""Waits between tries that fail in a row: each wait is longer than the one before, up to a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MAX_STEPS = 100  # a child that fails for hours would otherwise grow the power beyond what a float holds


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float  # seconds
    longest: float = math.inf
    growth: float = 2.0

    def wait(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        return min(self.longest, self.first * self.growth ** min(max(failures - 1, 0), _MAX_STEPS))
