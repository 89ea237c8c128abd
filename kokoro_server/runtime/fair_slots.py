"""A limited number of slots that callers take in turns, one by one or several at once.

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

    Nobody overtakes that caller, even if it waits for several slots and another for a single one. With `per_caller`,
    nobody has more than that number, so that some are free for other callers.
    """

    def __init__(self, number: int, per_caller: int | None = None) -> None:
        self.number = number
        self._free = number
        self._per_caller = number if per_caller is None else per_caller
        self._taken = Counter[str]()
        self._numbers = itertools.count(1)
        self._last: dict[str, int] = {}  # of each caller with or waiting for slots: the number of its last one
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []  # the oldest first, with the slots it needs

    @property
    def used(self) -> int:
        return self.number - self._free

    @property
    def waiting(self) -> int:
        """The slots that are waited for."""
        return sum(slots for _, slots, _ in self._waiting)

    def wanted_by(self, caller: str) -> int:
        """The slots that the caller has or waits for."""
        return self._taken[caller] + sum(slots for each, slots, _ in self._waiting if each == caller)

    @asynccontextmanager
    async def taken(self, caller: str, slots: int = 1) -> AsyncIterator[None]:
        """Waits for the slots: for all there are, if `slots` are more."""
        slots = min(slots, self.number)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wanted = caller, slots, turn
        self._waiting.append(wanted)
        self._give()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():  # a cancelled task may have been given its slot just before
                self._taken[caller] -= slots
                self._free += slots
            else:
                self._waiting.remove(wanted)
            if not self.wanted_by(caller):
                self._taken.pop(caller, None)
                self._last.pop(caller, None)
            self._give()

    def _give(self) -> None:
        while waiting := [each for each in self._waiting if self._may_take(*each)]:
            caller, slots, turn = given = min(waiting, key=self._turn)
            if slots > self._free:
                break
            self._waiting.remove(given)
            self._taken[caller] += slots
            self._last[caller] = next(self._numbers)
            self._free -= slots
            turn.set_result(None)

    def _may_take(self, caller: str, slots: int, turn: asyncio.Future[None]) -> bool:
        return not turn.cancelled() and self._taken[caller] + slots <= self._per_caller

    def _turn(self, waiting: tuple[str, int, asyncio.Future[None]]) -> tuple[int, int]:
        caller, _, _ = waiting
        return self._taken[caller], self._last.get(caller, 0)
