"""What one caller has queued is its own affair: others are still let in, and it may be limited."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from kokoro_server.batching import Priority
from kokoro_server.errors import TooBusy
from tests.batching.doubles import as_caller, make_row, settle
from tests.batching.test_admission import teach


def admitted(queue, name: str, **options) -> bool:
    with as_caller(name):
        try:
            with queue.admit(queue.ticket(**options)):
                return True
        except TooBusy:
            return False


@pytest.mark.parametrize("priority", Priority)
async def test_who_has_nothing_queued_is_let_in_where_another_would_wait_too_long(
    start, submit, engine, clock, priority
):
    queue = await start(max_batch_size=1, queue_timeout=30, job_timeout=30)
    await teach(queue, submit, engine, clock, seconds=2.0)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(100), priority=priority)
    assert not admitted(queue, "many", priority=priority)
    assert admitted(queue, "one", priority=priority)
    assert not admitted(queue, "one", priority=priority, deadline=queue.now() + 1)  # one entry goes before it


async def test_the_time_to_come_back_is_that_of_the_caller(start, submit, engine, clock):
    queue = await start(max_batch_size=1, queue_timeout=30)
    await teach(queue, submit, engine, clock, seconds=2.0)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(100))
    with as_caller("few"):
        await submit(queue, *range(100, 110))
        with pytest.raises(TooBusy) as refusal, queue.admit(queue.ticket(deadline=queue.now() + 10)):
            pass
    assert 30 <= refusal.value.retry_after <= 34  # its ten, and eleven of the other's, take 42 s


async def test_a_queue_that_one_caller_filled_has_room_for_others(start, submit):
    queue = await start(max_queue_size=12)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(12))
    assert not admitted(queue, "many")
    with as_caller("second"):
        await submit(queue, *range(12, 17))
    assert admitted(queue, "second")
    assert admitted(queue, "third")
    with as_caller("second"):
        await submit(queue, 17)
    assert not admitted(queue, "second")  # it has half of twelve
    assert not admitted(queue, "many")


async def test_those_on_their_way_count_for_the_share(start, submit):
    queue = await start(max_queue_size=4)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(4))
    with as_caller("second"), queue.admit(), queue.admit():
        assert not admitted(queue, "second")


async def test_however_many_callers_there_are_the_queue_is_bounded(start, submit):
    queue = await start(max_queue_size=20)
    queue.hold()
    with ExitStack() as requests:
        for number in range(100):
            for _ in range(100):
                with as_caller(f"caller {number}"):
                    try:
                        requests.enter_context(queue.admit())
                    except TooBusy:
                        break
        on_their_way = queue.snapshot()["queue_status"]["preparing"]
    assert on_their_way == sum(20 // callers for callers in range(1, 21))
    assert queue.snapshot()["queue_status"]["callers"] == 0


async def test_a_callers_queued_audio_is_limited(start, submit):
    queue = await start(max_queued_seconds=10.0)
    queue.hold()
    with as_caller("many"):
        await submit(queue, *range(8))  # 45 frames each: nine seconds
        assert admitted(queue, "many")
        await submit(queue, 8)
        with pytest.raises(TooBusy) as refusal, queue.admit():
            pass
    assert refusal.value.retry_after >= 1
    assert "about 10 s of your audio are waiting, at most 10 s are allowed (MAX_QUEUED_SECONDS)" in str(refusal.value)
    assert queue.snapshot()["performance"]["rejected"] == 1
    assert admitted(queue, "other")
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert admitted(queue, "many")


async def test_requests_whose_text_is_still_read_count_as_usual_ones(start, submit, engine, clock):
    queue = await start(max_queued_seconds=3.0)
    await teach(queue, submit, engine, clock, seconds=0.1)  # rows of 45 frames: 1.125 s
    with queue.admit(), queue.admit():
        assert admitted(queue, "-")
        with queue.admit():
            assert not admitted(queue, "-")


async def test_a_long_text_runs_whatever_the_limit(start, clock):
    queue = await start(max_queued_seconds=1.0)
    ticket = queue.ticket()
    with queue.admit(ticket):
        pass
    rows = [make_row(name, tokens=100) for name in range(30)]
    made = asyncio.create_task(_count(queue.submit_all(rows, voice="a", ticket=ticket)))
    assert await clock.keep_going(made) == 30


async def test_the_texts_of_one_request_are_let_in_together(start, submit, engine, clock):
    queue = await start(max_queued_seconds=1.0)
    await teach(queue, submit, engine, clock, seconds=0.1)
    ticket = queue.ticket(priority=Priority.BULK)
    queue.hold()
    with queue.admit(ticket), queue.admit(ticket), queue.admit(ticket):
        assert not admitted(queue, "-", priority=Priority.BULK)
    first = asyncio.create_task(queue.submit_only(make_row(0, tokens=100), "a", ticket))
    await settle()
    with queue.admit(ticket):
        pass
    queue.release()
    await clock.keep_going(first)


@pytest.mark.parametrize("limit", [{"max_queue_size": 4}, {"max_queued_seconds": 1.0}])
async def test_what_a_caller_has_in_bulk_turns_none_of_its_other_requests_away(start, submit, limit):
    queue = await start(**limit)
    queue.hold()
    await submit(queue, *range(4), priority=Priority.BULK)
    assert not admitted(queue, "-", priority=Priority.BULK)
    assert admitted(queue, "-")
    assert queue.snapshot()["status"] == "healthy"
    await submit(queue, *range(4, 8))
    assert not admitted(queue, "-")


async def test_bulk_that_is_on_its_way_is_not_waited_for(start, submit, engine, clock):
    queue = await start(max_batch_size=1, queue_timeout=30)
    await teach(queue, submit, engine, clock, seconds=2.0)
    with ExitStack() as requests:
        for _ in range(10):
            requests.enter_context(queue.admit(queue.ticket(priority=Priority.BULK)))
        soon = queue.now() + 5
        assert admitted(queue, "-", deadline=soon)
        assert not admitted(queue, "-", priority=Priority.BULK, deadline=soon)


async def _count(outcomes) -> int:
    return len([outcome async for outcome in outcomes])
