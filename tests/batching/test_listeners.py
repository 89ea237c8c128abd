"""How large batches are while many listen: to the first pieces of streams, to later ones, and to clips."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import Priority
from kokoro_server.engine.protocol import EngineLimits
from tests.batching.doubles import learn_overhead

FIRST, LATER, CLIPS = range(0, 100), range(100, 200), range(200, 300)  # names
ROWS = 32


@pytest.fixture
async def crowd(start, submit, engine, clock):
    """The forward passes in which entries that all wait at once are spoken."""

    async def speak(first: int = 0, later: int = 0, clips: int = 0, fixed: float = 90) -> list[list[int]]:
        engine.limits = EngineLimits(510, ROWS, 100_000)
        engine.before = lambda rows: clock.pass_time(0.001 * (fixed + 45 * len(rows)))
        queue = await start()
        learn_overhead(queue, fixed)
        queue.hold()
        await submit(queue, *FIRST[:first], priority=Priority.BYPASS)
        await submit(queue, *LATER[:later], priority=Priority.NEXT)
        await submit(queue, *CLIPS[:clips])
        queue.release()
        await asyncio.gather(*submit.tasks)
        submit.tasks.clear()
        calls, engine.calls = engine.calls, []
        return calls

    return speak


async def test_a_batch_is_larger_the_more_wait_to_hear_something(crowd):
    alone = await crowd(first=16)
    beside_later = await crowd(first=16, later=40)
    beside_clips = await crowd(first=16, clips=40)
    assert len(alone[0]) < len(beside_later[0]) < ROWS
    assert len(alone[0]) < len(beside_clips[0]) < ROWS


async def test_later_pieces_fill_no_batch_that_first_pieces_would_wait_for(crowd):
    _, of_later_pieces, *_ = await crowd(first=1, later=3 * ROWS)
    assert len(of_later_pieces) < ROWS


async def test_clips_alone_fill_their_batches(crowd):
    calls = await crowd(clips=3 * ROWS)
    assert [len(call) for call in calls] == [ROWS] * 3


async def test_clips_have_a_turn_of_their_own_beside_a_crowd_of_streams(crowd):
    calls = await crowd(first=80, later=80, clips=24)
    share = [sum(name in CLIPS for name in call) / len(call) for call in calls]
    own = [number for number, clips in enumerate(share) if clips > 0.5]
    assert own[0] <= 5  # after four batches that they at most filled up, and one of later pieces


async def test_a_row_at_a_time_goes_by_lane(start, submit, engine):
    engine.limits = EngineLimits(510, 1, 100_000)
    queue = await start()
    learn_overhead(queue, 90)
    queue.hold()
    await submit(queue, *CLIPS[:2])
    await submit(queue, *LATER[:2], priority=Priority.NEXT)
    await submit(queue, *FIRST[:2], priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[0], [1], [100], [101], [200], [201]]
