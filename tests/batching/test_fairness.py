"""Callers take turns: what one has queued does not delay another. The engine takes four rows."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from kokoro_server.batching import Priority
from tests.batching.doubles import as_caller, learn_overhead, make_row, settle, until


def turn_of(engine, name: int) -> int:
    """The number of the forward pass that made it, from 0."""
    return next(index for index, call in enumerate(engine.calls) if name in call)


@pytest.mark.parametrize("tokens", [10, 100], ids=["as long", "longer"])
@pytest.mark.parametrize("priority", Priority)
async def test_a_thousand_of_one_caller_delay_another_by_two_batches_at_most(start, submit, engine, priority, tokens):
    queue = await start(max_queue_size=10_000)
    learn_overhead(queue, fixed=45)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(1000), priority=priority)
    with as_caller("one"):
        [alone] = await submit(queue, 5000, tokens=tokens, priority=priority)
    queue.release()
    await alone
    assert turn_of(engine, 5000) <= 1


async def test_one_that_comes_while_a_thousand_are_worked_off_is_next_but_one_at_most(start, submit, engine):
    queue = await start(max_queue_size=10_000)
    with as_caller("many"):
        await submit(queue, *range(1000))
    await until(lambda: len(engine.calls) >= 20)
    engine.gate.clear()
    await settle()
    before = len(engine.calls)  # the last of these runs
    with as_caller("one"):
        [alone] = await submit(queue, 5000)
    engine.gate.set()
    await alone
    assert turn_of(engine, 5000) <= before + 1


async def test_a_crowd_of_streams_delays_anothers_first_piece_by_one_batch_at_most(start, submit, engine, clock):
    queue = await start()
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(100), priority=Priority.NEXT)  # older than what follows: they would go before it
        await clock.advance(1.0)
        await submit(queue, *range(100, 200), priority=Priority.BYPASS)
    await clock.advance(1.0)
    with as_caller("one"):
        [first_piece] = await submit(queue, 5000, priority=Priority.BYPASS)
    queue.release()
    await first_piece
    assert turn_of(engine, 5000) <= 1
    await asyncio.gather(*submit.tasks)


async def test_batches_are_shared_and_full(start, submit, engine):
    queue = await start()
    queue.hold()
    for number, name in enumerate("abcdef"):
        with as_caller(name):
            await submit(queue, *range(100 * number, 100 * number + 20))
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert [len(call) for call in engine.calls] == [4] * 30
    served = Counter(name // 100 for call in engine.calls[:15] for name in call)
    assert set(served.values()) == {10}


async def test_shares_are_of_audio_not_of_texts(start, submit, engine):
    queue = await start(max_batch_size=1)
    queue.hold()
    with as_caller("long"):
        await submit(queue, *range(100), tokens=172)  # 450 frames
    with as_caller("short"):
        await submit(queue, *range(1000, 1100), tokens=10)  # 45 frames
    queue.release()
    await asyncio.gather(*submit.tasks)
    served = Counter(call[0] >= 1000 for call in engine.calls[:66])
    assert served == {True: 60, False: 6}


async def test_having_been_away_gives_no_credit(start, submit, engine):
    queue = await start(max_batch_size=1, max_queue_size=10_000)
    with as_caller("busy"):
        await submit(queue, *range(400))
    await until(lambda: len(engine.calls) >= 200)
    queue.hold()
    await until(lambda: not queue.snapshot()["queue_status"]["running_rows"])
    before = len(engine.calls)
    with as_caller("away"):
        await submit(queue, *range(1000, 1040))
    queue.release()
    await asyncio.gather(*submit.tasks)
    turns = [call[0] >= 1000 for call in engine.calls[before : before + 40]]
    assert sum(turns) == 20


async def test_ever_new_callers_do_not_hold_off_one_that_waits(start, submit, engine):
    queue = await start(max_batch_size=1, max_queue_size=10_000)
    queue.hold()
    with as_caller("patient"):
        waiting = await submit(queue, *range(20))
    arrivals = iter(range(1000, 2000))
    loop = asyncio.get_running_loop()

    def come() -> None:
        name = next(arrivals, None)
        if name is not None:
            with as_caller(f"new {name}"):
                submit.tasks.append(loop.create_task(queue.submit(make_row(name), voice="af_heart")))

    for _ in range(10):
        come()
    await settle()
    engine.before = lambda _rows: loop.call_soon_threadsafe(come)  # for each that goes another comes
    queue.release()
    await waiting[5]
    engine.before = lambda _rows: None
    assert turn_of(engine, 5) < 200


async def test_what_is_cancelled_costs_its_caller_no_turn(start, submit, engine):
    queue = await start(max_batch_size=1)
    queue.hold()
    with as_caller("changed its mind"):
        for task in await submit(queue, *range(500)):
            task.cancel()
        await settle()
        await submit(queue, *range(500, 510))
    with as_caller("other"):
        await submit(queue, *range(1000, 1100))
    queue.release()
    await asyncio.gather(*submit.tasks, return_exceptions=True)
    assert sorted(call[0] for call in engine.calls[:20] if call[0] < 1000) == [*range(500, 510)]


async def test_the_pieces_of_a_job_take_the_turns_of_who_asked_for_it(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(100))
    with as_caller("reader"):
        ticket = queue.ticket(ahead=3)
    with as_caller("somebody else"):  # a generator may run in another context than its maker's
        outcomes = queue.submit_all([make_row(name) for name in (1000, 1001, 1002)], voice="a", ticket=ticket)
        read = asyncio.create_task(_drain(outcomes))
    await settle()
    assert queue.snapshot()["queue_status"]["callers"] == 2
    queue.release()
    await clock.keep_going(read)
    assert turn_of(engine, 1002) <= 5


async def _drain(outcomes) -> None:
    async for _ in outcomes:
        pass


async def test_the_health_page_counts_callers_and_forgets_those_that_are_done(start, submit):
    queue = await start()
    queue.hold()

    def counted() -> int:
        return queue.snapshot()["queue_status"]["callers"]

    for name in range(5):
        with as_caller(f"caller {name}"):
            await submit(queue, 2 * name, 2 * name + 1)
    with as_caller("on its way"), queue.admit():
        assert counted() == 6
    assert counted() == 5
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert counted() == 0
    assert "caller" not in str(queue.snapshot()).replace("'callers'", "")
