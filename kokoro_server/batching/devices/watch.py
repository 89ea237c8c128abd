"""Notices forward passes that hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kokoro_server.batching.clock import Clock, Timer
from kokoro_server.batching.devices.runner import Runner

LOOKS = 12  # at a pass, in the time that it may take
HARDLY = 0.001  # of the time: a thread that computes less does not wait for a processor, but hangs


class ForwardStuck(Exception):
    """A forward pass has exceeded the engine timeout and still holds the device thread."""


class PassWatch:
    """Fails `done` when a forward pass takes too long. A batch with retries has several, each with its own time.

    `computing` is how long the device's thread has computed in all, for an engine that computes in it: beside other
    programs a pass may wait for a processor for minutes, and that time does not count. None if it cannot be known.
    """

    def __init__(
        self,
        done: asyncio.Future[Any],
        runner: Runner,
        timeout: float,
        clock: Clock,
        computing: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._done, self._runner, self._timeout, self._clock, self._computing = done, runner, timeout, clock, computing
        self._forward: float | None = None  # when the pass began that is watched
        self._looked = clock.now()
        self._computed = computing()
        self._counted = 0.0  # seconds of that pass
        self._timer: Timer
        self._look_again()
        done.add_done_callback(lambda _: self._timer.cancel())

    def _look_again(self) -> None:
        due = self._looked + min(self._timeout - self._counted, self._timeout / LOOKS)
        self._timer = self._clock.call_at(due, self._look)

    def _look(self) -> None:
        if self._done.done():
            return
        now, computed, forward = self._clock.now(), self._computing(), self._runner.forward_started
        if forward is None or forward != self._forward:
            self._counted = 0.0
        if forward is not None:
            self._counted += self._taken(now - max(forward, self._looked), computed)
        self._forward, self._looked, self._computed = forward, now, computed
        if self._counted >= self._timeout - 1e-6:
            self._done.set_exception(ForwardStuck(f"a forward pass takes longer than {self._timeout:g} s"))
        else:
            self._look_again()

    def _taken(self, seconds: float, computed: float | None) -> float:
        """How much of the time since the last look counts."""
        if computed is None or self._computed is None:
            return seconds
        computing = computed - self._computed
        return min(seconds, computing) if computing > HARDLY * seconds else seconds
