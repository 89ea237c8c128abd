"""Turns on the event loop."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.runtime.loop_turns import MOST_HELD, LoopTurns


class Rounds:
    """Counts the rounds of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._stopped = False
        asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self.number += 1
        if not self._stopped:
            asyncio.get_running_loop().call_soon(self._count)

    def stop(self) -> None:
        self._stopped = True


@pytest.fixture
async def rounds():
    rounds = Rounds()
    yield rounds
    rounds.stop()


async def test_one_call_in_each_round(rounds):
    turns, when = LoopTurns(), []
    for _ in range(5):
        turns.call(lambda: when.append(rounds.number))
    assert not when
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(set(when)) == 5
    turns.call(lambda: when.append(rounds.number))  # there are turns again after nobody wanted one
    await asyncio.sleep(0.001)
    assert len(when) == 6


async def test_nobody_has_a_turn_while_they_are_held():
    turns, done = LoopTurns(), list[int]()
    turns.call(lambda: done.append(1))
    turns.hold()
    turns.call(lambda: done.append(2))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not done
    turns.release()
    await asyncio.sleep(0.001)
    assert done == [1, 2]


async def test_turns_that_nobody_releases_go_on():
    turns, done = LoopTurns(), list[int]()
    turns.hold()
    turns.call(lambda: done.append(1))
    await asyncio.sleep(2 * MOST_HELD)
    assert done == [1]


async def test_turns_are_not_held_all_the_time():
    turns, done = LoopTurns(), list[int]()
    for _ in range(100):  # 2 s, if each were held as long as may be
        turns.call(lambda: done.append(1))
        turns.hold()
        await asyncio.sleep(0.004)
    assert len(done) > 20
    turns.release()
    await asyncio.sleep(0.05)
    assert len(done) == 100


async def test_steps_of_work_that_wakes_at_once_go_one_by_one(rounds):
    turns, woken, when = LoopTurns(), asyncio.Event(), []

    async def work(number: int) -> int:
        await woken.wait()
        when.append(rounds.number)
        await asyncio.sleep(0)
        when.append(rounds.number)
        return number

    async def paced(number: int) -> int:
        return await turns.paced(work(number))

    tasks = [asyncio.create_task(paced(number)) for number in range(10)]
    await asyncio.sleep(0.01)
    woken.set()
    assert await asyncio.gather(*tasks) == list(range(10))
    assert len(set(when)) == 20


async def test_errors_come_through_in_both_directions():
    turns = LoopTurns()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    async def handles(future: asyncio.Future[None]) -> str:
        try:
            await future
        except KeyError as error:
            return repr(error)
        return "none"

    with pytest.raises(ValueError, match="its own"):
        await turns.paced(fails())
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(KeyError("of what it waits for"))
    assert "of what it waits for" in await turns.paced(handles(failed))


@pytest.mark.parametrize("rounds_before", range(6))
async def test_it_can_be_cancelled_at_any_moment(rounds_before):
    turns, ended = LoopTurns(), []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def paced() -> None:
        await turns.paced(work())

    task = asyncio.create_task(paced())
    for _ in range(rounds_before):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended or rounds_before < 4  # before its first step there is nothing to end


async def test_a_timeout_within_works_as_ever():
    turns = LoopTurns()

    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "in time"

    assert await turns.paced(work()) == "late"


async def test_work_that_is_dropped_is_closed():
    turns, closed = LoopTurns(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    steps = turns.paced(work()).__await__()
    next(steps)
    await asyncio.sleep(0.001)
    next(steps)
    steps.close()
    assert closed
