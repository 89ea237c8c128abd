"""Lets an engine work for later batches while its device has none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kokoro_server.batching.clock import Clock, Timer
from kokoro_server.batching.devices.thread import DeviceThread
from kokoro_server.engine.protocol import HasBackgroundWork

logger = logging.getLogger(__name__)

IDLE_SECONDS = 1.0  # without a batch, after which background work begins
PAUSE_SECONDS = 0.02  # between two steps: a batch that arrives waits for one step at most


class IdleWork:
    """Calls `background_step` on a device's thread, step by step. Used on the event loop only.

    A batch that arrives meanwhile waits for the end of one step; the next step begins when the device is idle again.
    """

    def __init__(
        self,
        engine: HasBackgroundWork,
        clock: Clock,
        threads: Callable[[], Sequence[DeviceThread]],
        is_idle: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._threads = threads
        self._is_idle = is_idle
        self._last_batch = float("-inf")
        self._steps = 0  # that run now
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """The first step runs at once, on every thread: the first call of a thread takes longer."""
        for thread in self._threads():
            self._step(thread)

    def stop(self) -> None:
        self._stopped = True
        self._cancel_timer()

    def batch_ended(self) -> None:
        self._last_batch = self._clock.now()
        if self._timer is None and not self._steps:
            self._look_at(self._last_batch + IDLE_SECONDS)

    def _look_at(self, when: float) -> None:
        self._cancel_timer()
        if not self._stopped:
            self._timer = self._clock.call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.now()
        due = now + IDLE_SECONDS if not self._is_idle() else self._last_batch + IDLE_SECONDS
        if due > now:
            self._look_at(due)
        else:
            self._step(self._threads()[0])

    def _step(self, thread: DeviceThread) -> None:
        self._steps += 1
        thread.call(self._engine.background_step).add_done_callback(self._stepped)

    def _stepped(self, done: asyncio.Future[bool]) -> None:
        self._steps -= 1
        if done.cancelled():
            return
        if (error := done.exception()) is not None:  # a fault of the device is handled with the next batch
            logger.warning("work in the background failed and is given up", exc_info=error)
            self.stop()
        elif done.result():
            self._look_at(self._clock.now() + PAUSE_SECONDS)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
