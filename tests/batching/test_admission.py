"""Refusing early, with a time to come back."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import Priority
from kokoro_server.errors import EngineUnavailable, TooBusy
from tests.batching.doubles import until


async def teach(queue, submit, engine, clock, seconds: float) -> None:
    """Let the queue see a dozen batches of one row that take `seconds` each."""
    engine.before = lambda _rows: clock.pass_time(seconds)
    for name in range(12):
        queue.hold()
        tasks = await submit(queue, name)
        queue.release()
        await asyncio.gather(*tasks)


async def test_an_idle_queue_admits(start):
    queue = await start()
    with queue.admit():
        assert queue.snapshot()["queue_status"]["preparing"] == 1
    assert queue.snapshot()["queue_status"]["preparing"] == 0


async def test_a_full_queue_refuses(start, submit):
    queue = await start(max_queue_size=3)
    queue.hold()
    await submit(queue, 0, 1)
    with queue.admit(), pytest.raises(TooBusy) as refusal, queue.admit():
        pass
    assert refusal.value.retry_after == 1
    assert "3 texts are waiting" in str(refusal.value)
    assert queue.snapshot()["performance"]["rejected"] == 1


async def test_a_wait_past_the_deadline_refuses_with_the_time_to_come_back(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    await teach(queue, submit, engine, clock, seconds=2.0)
    queue.hold()
    await submit(queue, *range(10))
    wait = queue.predicted_wait()
    assert wait == pytest.approx(20.0, rel=0.05)
    with queue.admit():
        pass
    with pytest.raises(TooBusy) as refusal, queue.admit(queue.ticket(deadline=queue.now() + 5)):
        pass
    assert refusal.value.retry_after in (15, 16)


async def test_only_those_ahead_count(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    await teach(queue, submit, engine, clock, seconds=2.0)
    queue.hold()
    await submit(queue, *range(10), priority=Priority.BULK)
    assert queue.predicted_wait() == 0.0
    assert queue.predicted_wait(Priority.BULK) == pytest.approx(20.0, rel=0.05)


async def test_those_on_their_way_count(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    await teach(queue, submit, engine, clock, seconds=2.0)
    with queue.admit(), queue.admit(), queue.admit():
        assert queue.predicted_wait() == pytest.approx(6.0, rel=0.05)


async def test_the_rest_of_the_running_batch_counts(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    await teach(queue, submit, engine, clock, seconds=2.0)
    engine.gate.clear()
    engine.entered.clear()
    await submit(queue, 0)
    await until(engine.entered.is_set)
    assert queue.predicted_wait() == pytest.approx(2.0, rel=0.05)
    clock.pass_time(1.5)
    assert queue.predicted_wait() == pytest.approx(0.5, rel=0.1)


async def test_overload_shows_in_the_status(start, submit, engine, clock):
    queue = await start(max_batch_size=1, queue_timeout=30)
    await teach(queue, submit, engine, clock, seconds=2.0)
    assert queue.snapshot()["status"] == "healthy"
    queue.hold()
    await submit(queue, *range(20))
    assert queue.snapshot()["status"] == "degraded"


async def test_a_stopped_queue_refuses(start):
    queue = await start()
    await queue.stop()
    with pytest.raises(EngineUnavailable), queue.admit():
        pass
