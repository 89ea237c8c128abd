"""Places that callers take in turns."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Places:
    """A place that becomes free goes to the caller who has the fewest, and among them to who got none for longest."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._taken = Counter[str]()
        self._numbers = itertools.count(1)
        self._last: dict[str, int] = {}  # the number of the last place that a caller was given, who still wants some
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []  # the longest first

    def wanted_by(self, caller: str) -> int:
        """Those that it has, or waits for."""
        return self._taken[caller] + sum(each == caller for each, _ in self._waiting)

    @asynccontextmanager
    async def taken(self, caller: str) -> AsyncIterator[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((caller, turn))
        self._give()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():  # a cancelled one may have been given its place just before
                self._taken[caller] -= 1
                self._free += 1
            else:
                self._waiting.remove((caller, turn))
            if not self.wanted_by(caller):
                self._taken.pop(caller, None)
                self._last.pop(caller, None)
            self._give()

    def _give(self) -> None:
        while self._free and (waiting := [each for each in self._waiting if not each[1].cancelled()]):
            caller, turn = given = min(waiting, key=self._turn)
            self._waiting.remove(given)
            self._taken[caller] += 1
            self._last[caller] = next(self._numbers)
            self._free -= 1
            turn.set_result(None)

    def _turn(self, waiting: tuple[str, asyncio.Future[None]]) -> tuple[int, int]:
        caller, _ = waiting
        return self._taken[caller], self._last.get(caller, 0)
