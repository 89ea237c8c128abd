"""Long texts: in order, few pieces at once, nothing left behind."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from kokoro_server.batching import Priority
from kokoro_server.errors import EngineError, Expired
from tests.batching.doubles import make_row, name_of, settle, until


def rows(count: int):
    return [make_row(name) for name in range(count)]


def waiting(queue) -> int:
    return queue.snapshot()["queue_status"]["current_size"]


def lanes(queue) -> dict[str, int]:
    return queue.snapshot()["queue_status"]["by_priority"]


async def collect(outcomes) -> list[int]:
    return [name_of(outcome.result) async for outcome in outcomes]


async def test_pieces_come_in_order(start, clock):
    queue = await start()
    assert await clock.keep_going(collect(queue.submit_all(rows(30), voice="af_heart"))) == list(range(30))


async def test_two_batches_worth_wait_at_once(start, clock):
    queue = await start()
    queue.hold()
    task = asyncio.create_task(collect(queue.submit_all(rows(30), voice="af_heart")))
    await settle()
    assert waiting(queue) == 8
    queue.release()
    assert await clock.keep_going(task) == list(range(30))


async def test_several_texts_of_a_job_share_its_permits(start, clock):
    queue = await start()
    queue.hold()
    ticket = queue.ticket(priority=Priority.BULK)
    tasks = [asyncio.create_task(collect(queue.submit_all(rows(5), voice="a", ticket=ticket))) for _ in range(10)]
    await settle()
    assert waiting(queue) == 8
    queue.release()
    assert await clock.keep_going(asyncio.gather(*tasks)) == [list(range(5))] * 10


async def test_the_first_pieces_take_the_bypass_lane(start, clock):
    queue = await start()
    queue.hold()
    task = asyncio.create_task(collect(queue.submit_all(rows(6), voice="a", ticket=queue.ticket(bypass=2))))
    await settle()
    assert queue.snapshot()["queue_status"]["by_priority"] == {
        "bypass": 1,
        "following": 1,
        "normal": 4,
        "ahead": 0,
        "bulk": 0,
    }
    queue.release()
    await clock.keep_going(task)
    assert queue.snapshot()["performance"]["bypassed"] == 2


async def test_all_the_pieces_that_are_urgent_go_before_all_others(start, clock):
    queue = await start()
    queue.hold()
    ticket = queue.ticket(bypass=3, urgent=2)
    task = asyncio.create_task(collect(queue.submit_all(rows(6), voice="a", ticket=ticket)))
    await settle()
    assert queue.snapshot()["queue_status"]["by_priority"] == {
        "bypass": 2,
        "following": 1,
        "normal": 3,
        "ahead": 0,
        "bulk": 0,
    }
    queue.release()
    await clock.keep_going(task)


async def test_a_text_of_one_row_has_the_same_place_and_time(start, clock):
    queue = await start(queue_timeout=1.0)
    queue.hold()
    first = asyncio.create_task(queue.submit_only(make_row(0), "a", queue.ticket(bypass=2)))
    ticket = queue.ticket(deadline=queue.now() + 20)
    late = asyncio.create_task(queue.submit_only(make_row(1), "a", ticket))
    await settle()
    assert queue.snapshot()["queue_status"]["by_priority"] == {
        "bypass": 1,
        "following": 0,
        "normal": 1,
        "ahead": 0,
        "bulk": 0,
    }
    first.cancel()
    await settle()
    assert waiting(queue) == 1
    await clock.advance(20.5)
    with pytest.raises(Expired):
        await late
    assert waiting(queue) == 0


async def test_texts_of_one_row_keep_to_their_jobs_permits(start, clock):
    queue = await start()
    queue.hold()
    ticket = queue.ticket(ahead=2)
    tasks = [asyncio.create_task(queue.submit_only(make_row(name), "a", ticket)) for name in range(5)]
    await settle()
    assert waiting(queue) == 2
    queue.release()
    outcomes = await clock.keep_going(asyncio.gather(*tasks))
    assert [name_of(outcome.result) for outcome in outcomes] == list(range(5))


async def test_pieces_are_taken_as_the_source_makes_them(start, clock):
    queue = await start()
    more = asyncio.Event()

    async def source():
        yield make_row(0)
        await more.wait()
        yield make_row(1)

    async with aclosing(queue.submit_all(source(), voice="a", ticket=queue.ticket(bypass=2))) as outcomes:
        assert name_of((await anext(outcomes)).result) == 0
        more.set()
        assert name_of((await anext(outcomes)).result) == 1
        with pytest.raises(StopAsyncIteration):
            await anext(outcomes)


async def test_a_source_that_fails_raises_after_what_came_before(start):
    queue = await start()

    async def source():
        yield make_row(0)
        raise LookupError("no phonemes")

    outcomes = queue.submit_all(source(), voice="a", ticket=queue.ticket(bypass=1))
    assert name_of((await anext(outcomes)).result) == 0
    with pytest.raises(LookupError):
        await anext(outcomes)


async def test_closing_cancels_the_rest_and_the_source(start, engine):
    queue = await start()
    closed = asyncio.Event()

    async def source():
        try:
            for row in rows(30):
                yield row
        finally:
            closed.set()

    engine.gate.clear()
    outcomes = queue.submit_all(source(), voice="a")
    first = asyncio.create_task(anext(outcomes))
    await until(engine.entered.is_set)
    queue.hold()
    engine.gate.set()
    await first
    await outcomes.aclose()
    await settle()
    assert waiting(queue) == 0
    assert closed.is_set()
    queue.release()
    await settle()
    assert engine.calls == [[0, 1, 2, 3]]


async def test_a_failed_piece_ends_the_job(start, engine):
    queue = await start()

    def before(batch):
        if any(row.seed == 2 for row in batch):
            raise ValueError("two")

    engine.before = before
    outcomes = queue.submit_all(rows(30), voice="a")
    assert [name_of((await anext(outcomes)).result) for _ in range(2)] == [0, 1]
    with pytest.raises(EngineError):
        await anext(outcomes)
    await settle()
    assert waiting(queue) == 0


async def test_only_the_first_piece_is_bound_by_the_queue_timeout(start, engine, clock):
    queue = await start(queue_timeout=30, job_timeout=600, engine_timeout=10_000)
    ticket = asyncio.create_task(collect(queue.submit_all(rows(8), voice="a")))
    engine.gate.clear()
    await until(engine.entered.is_set)
    await clock.advance(500)
    engine.gate.set()
    assert await ticket == list(range(8))


async def test_a_first_piece_that_waits_too_long_ends_the_job(start, clock):
    queue = await start()
    queue.hold()
    limited = queue.ticket(deadline=queue.now() + 600)
    ticket = asyncio.create_task(collect(queue.submit_all(rows(8), voice="a", ticket=limited)))
    await clock.advance(600)
    with pytest.raises(Expired):
        await ticket
    await settle()
    assert waiting(queue) == 0


async def test_a_later_pieces_clock_starts_when_it_is_enqueued(start, clock):
    """Somebody who listens as it is played takes an hour; the caller's deadline is for the first piece alone."""
    queue = await start(job_timeout=600, engine_timeout=10_000)
    ticket = queue.ticket(ahead=1, deadline=queue.now() + 3)
    outcomes = queue.submit_all(rows(4), voice="a", ticket=ticket)
    heard = []
    for _ in range(4):
        heard.append(name_of((await clock.keep_going(anext(outcomes))).result))
        await clock.advance(900)
    await outcomes.aclose()
    assert heard == list(range(4))


async def test_a_later_text_of_a_job_that_has_begun_has_a_clock_of_its_own(start, clock):
    queue = await start(job_timeout=600, engine_timeout=10_000)
    ticket = queue.ticket(deadline=queue.now() + 3)
    await clock.keep_going(queue.submit_only(make_row(0), "a", ticket))
    await clock.advance(900)
    await clock.keep_going(queue.submit_only(make_row(1), "a", ticket))


async def test_a_job_is_bound_by_the_callers_limit_alone(start, clock):
    queue = await start(job_timeout=60)
    queue.hold()
    tickets = [queue.ticket(priority=Priority.BULK), queue.ticket(priority=Priority.BULK, deadline=queue.now() + 100)]
    long, short = [
        asyncio.create_task(collect(queue.submit_all(rows(1), voice="a", ticket=ticket))) for ticket in tickets
    ]
    await clock.advance(100)
    assert (long.done(), short.done()) == (False, True)
    await clock.advance(10_000)
    assert not long.done()
    with pytest.raises(Expired):
        await short
    queue.release()
    assert await clock.keep_going(long) == [0]
