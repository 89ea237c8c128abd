"""How the cost of something grows with what it is given."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

FEWEST, MOST = 2, 40  # tries


def is_at_most(times: float, short: Callable[[], object], long: Callable[[], object], harmless: float) -> bool:
    """Whether `long` costs at most `times` what `short` does, or less than `harmless` seconds of CPU.

    On a busy machine anything may take long for once, so it is the least of several tries that counts.
    """
    least_short = least_long = math.inf
    for tries in range(1, MOST + 1):
        least_long = min(least_long, _cost(long))
        if least_long < harmless:
            return True
        least_short = min(least_short, _cost(short))
        if tries >= FEWEST and least_long < times * least_short:
            return True
    return False


def _cost(run: Callable[[], object]) -> float:
    started = time.thread_time()
    run()
    return time.thread_time() - started
