"""The queue's clock and timers behind a protocol, so that a test can move time by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """`now` is called from the device thread too; `call_at` only on the event loop."""

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...


class LoopClock:
    """Monotonic seconds, and the running event loop's timers."""

    def now(self) -> float:
        return time.monotonic()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        # Not loop.call_at: the event loop's own clock may be coarser than ours, or start elsewhere.
        return asyncio.get_running_loop().call_later(max(0.0, when - time.monotonic()), callback)
