from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kokoro_server.runtime.fair_slots import FairSlots
from tests.longform.jobs.doubles import until


class Work:
    """What each caller does in a place, until it is told to end."""

    def __init__(self, places: FairSlots) -> None:
        self._places = places
        self.begun: list[str] = []
        self.ends: list[asyncio.Event] = []

    async def do(self, caller: str) -> None:
        async with self._places.taken(caller):
            self.begun.append(caller)
            self.ends.append(end := asyncio.Event())
            await end.wait()


@asynccontextmanager
async def asked(work: Work, *callers: str) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(work.do(caller)) for caller in callers]
    try:
        await asyncio.sleep(0)
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_has_the_fewest_is_next() -> None:
    places = FairSlots(2)
    work = Work(places)
    async with asked(work, "ann", "ann", "ann", "ann", "bob", "bob", "eve"):
        assert work.begun == ["ann", "ann"]
        assert (places.wanted_by("ann"), places.wanted_by("bob"), places.wanted_by("dan")) == (4, 2, 0)
        for number in range(5):
            work.ends[number].set()
            await until(lambda: len(work.begun) == number + 3)  # noqa: B023
        assert work.begun[2:] == ["bob", "eve", "ann", "bob", "ann"]


async def test_nobody_waits_for_all_of_others() -> None:
    work = Work(FairSlots(2))
    async with asked(work, *["ann", "bob"] * 5, "eve"):
        for number in range(2):
            work.ends[number].set()
            await until(lambda: len(work.begun) == number + 3)  # noqa: B023
        assert "eve" in work.begun


async def test_who_leaves_takes_no_place() -> None:
    places = FairSlots(1)
    work = Work(places)
    async with asked(work, "ann", "bob", "eve") as tasks:
        tasks[1].cancel()
        await asyncio.wait([tasks[1]])
        assert places.wanted_by("bob") == 0
        work.ends[0].set()
        await until(lambda: work.begun == ["ann", "eve"])
    async with asked(work, "ann", "bob", "eve") as tasks:
        work.ends[-1].set()
        await asyncio.wait([tasks[0]])  # the next has just been given its place
        tasks[1].cancel()
        await until(lambda: work.begun[-1] == "eve")
    async with asked(work, "ann", "bob", "eve") as tasks:
        work.ends[-1].set()
        tasks[1].cancel()  # before it could be given the place
        await until(lambda: work.begun[-1] == "eve")
    async with asked(work, "dan"):
        assert work.begun[-1] == "dan"


async def test_who_needs_several_slots_is_not_overtaken_and_may_need_all() -> None:
    slots, order, ends = FairSlots(4), list[str](), dict[str, asyncio.Event]()

    async def take(caller: str, number: int) -> None:
        async with slots.taken(caller, number):
            order.append(caller)
            ends[caller] = asyncio.Event()
            await ends[caller].wait()

    tasks = [asyncio.create_task(take(*each)) for each in (("ann", 3), ("bob", 9), ("eve", 1))]
    await until(lambda: order == ["ann"])
    assert (slots.used, slots.waiting, slots.wanted_by("bob")) == (3, 5, 4)
    for name, others in (("ann", ["ann", "bob"]), ("bob", ["ann", "bob", "eve"])):
        ends[name].set()
        await until(lambda: order == others)  # noqa: B023
    ends["eve"].set()
    await asyncio.gather(*tasks)
    assert (slots.used, slots.waiting) == (0, 0)
