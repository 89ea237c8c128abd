"""A limited number of slots that callers take in turns.

Four modules take turns by another rule, which a common one would need a switch for. `batching.lane` charges callers by
seconds of audio and fills batches. `g2p.micro_batcher` takes several requests at once. `g2p.service.lanes` takes turns
among calls, eight texts each, and knows no callers. `longform.jobs.runner` chooses among stored jobs, which outlive it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A slot that becomes free goes to the caller with the fewest, and among those to the one that waited longest.

    With `per_caller`, nobody has more than that number, so that some are free for other callers.
    """

    def __init__(self, number: int, per_caller: int | None = None) -> None:
        self._free = number
        self._per_caller = number if per_caller is None else per_caller
        self._taken = Counter[str]()
        self._numbers = itertools.count(1)
        self._last: dict[str, int] = {}  # of each caller with or waiting for slots: the number of its last one
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []  # the oldest first

    def wanted_by(self, caller: str) -> int:
        """The slots that the caller has or waits for."""
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
            if turn.done() and not turn.cancelled():  # a cancelled task may have been given its slot just before
                self._taken[caller] -= 1
                self._free += 1
            else:
                self._waiting.remove((caller, turn))
            if not self.wanted_by(caller):
                self._taken.pop(caller, None)
                self._last.pop(caller, None)
            self._give()

    def _give(self) -> None:
        while self._free and (waiting := [each for each in self._waiting if self._may_take(*each)]):
            caller, turn = given = min(waiting, key=self._turn)
            self._waiting.remove(given)
            self._taken[caller] += 1
            self._last[caller] = next(self._numbers)
            self._free -= 1
            turn.set_result(None)

    def _may_take(self, caller: str, turn: asyncio.Future[None]) -> bool:
        return not turn.cancelled() and self._taken[caller] < self._per_caller

    def _turn(self, waiting: tuple[str, asyncio.Future[None]]) -> tuple[int, int]:
        caller, _ = waiting
        return self._taken[caller], self._last.get(caller, 0)
