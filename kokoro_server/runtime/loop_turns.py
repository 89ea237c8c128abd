"""Turns on the event loop. Bulk comes in crowds: a batch ends, and a hundred tasks have something to do. If all of them
ran in one round of the loop, every other answer would wait for all of them, and again at the next step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from kokoro_server.runtime.pause_budget import PauseBudget

T = TypeVar("T")

MOST_HELD = 0.02  # seconds


class LoopTurns:
    """In each round of the event loop, one of the waiting functions or tasks has its turn."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._taken = False  # whether a turn has been taken in this round
        self._budget = PauseBudget()
        self._holding: asyncio.TimerHandle | None = None  # while no turns are given

    def call(self, function: Callable[[], object]) -> None:
        """Call the function when it is its turn: soon, but not at once."""
        self._waiting.append(function)
        self._go_on()

    def hold(self) -> None:
        """Give no turns until `release`, for MOST_HELD at most, and only for a small share of the time."""
        self.release()
        if self._budget.begin():
            self._holding = asyncio.get_running_loop().call_later(MOST_HELD, self.release)

    def release(self) -> None:
        if self._holding is None:
            return
        self._holding.cancel()
        self._holding = None
        self._budget.end()
        if self._waiting:
            self._go_on()

    def finish(self) -> None:
        """Give all waiting turns now."""
        self.release()
        while self._waiting:
            self._waiting.popleft()()

    def paced(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Await the result in place of `work`. Each step of `work`, from one wait to the next, takes a turn."""
        return _Paced(self, work)

    def take(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call(lambda: None if turn.done() else turn.set_result(None))
        return turn

    def _go_on(self) -> None:
        if not self._taken and self._holding is None:
            self._taken = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._taken = bool(self._waiting) and self._holding is None
        if self._taken:
            asyncio.get_running_loop().call_soon(self._next)  # first: a function that raises costs no other its turn
            self._waiting.popleft()()


class _Paced(Awaitable[T]):
    def __init__(self, turns: LoopTurns, work: Coroutine[Any, Any, T]) -> None:
        self._turns = turns
        self._work = work

    def __await__(self) -> Generator[Any, None, T]:
        error: BaseException | None = None
        try:
            while True:
                try:
                    yield from self._turns.take()
                except GeneratorExit:
                    raise
                except BaseException as raised:  # its task was cancelled
                    error = raised
                try:
                    awaited = self._work.send(None) if error is None else self._work.throw(error)
                except StopIteration as end:
                    result: T = end.value
                    return result
                error = None
                try:
                    yield awaited
                except GeneratorExit:
                    raise
                except BaseException as raised:
                    error = raised
        finally:
            self._work.close()
