"""Start, death and stop: whatever happens to the worker or the device, nobody waits in vain."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from kokoro_server.batching import BatchQueue, Priority, Submission
from kokoro_server.engine.protocol import EngineLimits
from kokoro_server.errors import EngineUnavailable, Expired
from tests.batching.doubles import PATIENCE, make_row, name_of, names, settle, until


async def test_a_poisoned_device_ends_everything(start, submit, engine):
    reasons = []
    queue = await start(on_fatal=reasons.append)

    def before(rows):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    engine.before = before
    outcomes = await submit.held(queue, *range(6))
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes)
    assert (queue.alive, queue.ready, queue.snapshot()["status"]) == (False, False, "unhealthy")
    assert len(reasons) == 1
    assert "illegal memory access" in reasons[0]
    assert len(engine.calls) == 1
    [late] = await submit(queue, 9)
    with pytest.raises(EngineUnavailable):
        await late


async def test_the_death_of_the_device_thread_is_survived(start, submit, engine):
    queue = await start()

    def before(rows):
        raise SystemExit(1)

    engine.before = before
    outcomes = await submit.held(queue, *range(6))
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes)
    assert (queue.alive, queue.ready, queue.snapshot()["status"]) == (True, True, "degraded")
    engine.before = lambda rows: None
    [outcome] = await submit.held(queue, 7)
    assert name_of(outcome.result) == 7


async def test_the_death_of_the_worker_task_is_survived(start, submit, engine):
    queue = await start()
    engine.gate.clear()
    tasks = await submit(queue, *range(6))
    await until(engine.entered.is_set)
    [worker] = [task for task in asyncio.all_tasks() if task.get_name() == "kokoro-batch-worker"]
    worker.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes)
    engine.gate.set()
    [outcome] = await submit.held(queue, 7)
    assert name_of(outcome.result) == 7


async def kill_device_thread(queue, submit, engine) -> None:
    def before(rows):
        raise SystemExit(1)

    engine.before = before
    await submit.held(queue, 0)


async def test_three_deaths_in_a_minute_turn_liveness_off(start, submit, engine):
    queue = await start()
    for alive in (True, True, False):
        await kill_device_thread(queue, submit, engine)
        assert queue.alive is alive
    assert not queue.ready


async def test_three_deaths_in_two_minutes_do_not(start, submit, engine, clock):
    queue = await start()
    for _ in range(3):
        await kill_device_thread(queue, submit, engine)
        await clock.advance(40)
    assert queue.alive
    assert queue.ready


async def test_a_forward_that_hangs_is_given_up(start, submit, engine, clock):
    queue = await start(engine_timeout=60)
    engine.gate.clear()
    running = await submit(queue, 0, 1, 2, 3)
    await until(engine.entered.is_set)
    [waiting] = await submit(queue, 4)
    await clock.advance(40)
    assert queue.alive
    [late] = await submit(queue, 5)
    await clock.advance(20)
    for task in running:
        with pytest.raises(Expired):
            await task
    for task in (waiting, late):
        with pytest.raises(EngineUnavailable):
            await task
    assert (queue.alive, queue.ready) == (False, False)


async def test_each_forward_of_a_retried_batch_has_its_own_time(start, submit, engine, clock):
    queue = await start(engine_timeout=60)
    second_may_end = threading.Event()

    def before(rows):
        if len(rows) == 4:
            clock.pass_time(40)
            raise ValueError("one of you")
        assert second_may_end.wait(PATIENCE)

    engine.before = before
    tasks = await submit(queue, 0, 1, 2, 3)
    await until(lambda: len(engine.calls) == 2)
    await clock.advance(30)  # seventy seconds into the batch, thirty into its second forward
    second_may_end.set()
    assert [name_of(outcome.result) for outcome in await asyncio.gather(*tasks)] == [0, 1, 2, 3]
    assert queue.alive


async def test_stop_resolves_everything(start, submit, engine):
    queue = await start()
    engine.gate.clear()
    tasks = await submit(queue, *range(9))
    await until(engine.entered.is_set)
    stopping = asyncio.create_task(queue.stop())
    await settle()
    assert all(task.done() for task in tasks[4:])
    engine.gate.set()
    await stopping
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [name_of(outcome.result) for outcome in outcomes[:4]] == [0, 1, 2, 3]
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes[4:])
    [late] = await submit(queue, 10)
    with pytest.raises(EngineUnavailable):
        await late


@pytest.mark.parametrize("is_made_before", [False, True])
async def test_bulk_that_is_made_has_its_turn_before_the_queue_has_stopped(start, engine, is_made_before):
    engine.limits = EngineLimits(510, 50, 100_000)
    queue = await start()
    engine.gate.clear()
    queue.hold()
    bulk = [queue.enqueue(Submission(make_row(name), "a", Priority.BULK, math.inf, "-")) for name in range(50)]
    queue.release()
    await until(engine.entered.is_set)
    if is_made_before:
        engine.gate.set()
        await bulk[0]  # the others have their turns in later rounds of the event loop
        await queue.stop()
    else:
        stopping = asyncio.create_task(queue.stop())
        await settle()
        engine.gate.set()
        await stopping
    assert all(future.done() for future in bulk)
    assert names([future.result() for future in bulk]) == list(range(50))


async def test_stop_does_not_wait_for_ever(start, submit, engine, clock):
    queue = await start()
    engine.gate.clear()
    tasks = await submit(queue, 0, 1, 2, 3)
    await until(engine.entered.is_set)
    stopping = asyncio.create_task(queue.stop())
    await clock.advance(5)
    await stopping
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes)


async def test_nothing_is_taken_before_the_start(submit, engine, clock):
    [task] = await submit(BatchQueue([engine], clock=clock), 0)
    with pytest.raises(EngineUnavailable):
        await task


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.BULK])
async def test_what_was_made_before_the_device_was_lost_is_answered(start, submit, engine, priority):
    engine.limits = EngineLimits(510, 12, 100_000)
    queue = await start()

    def fail(rows):
        if len(rows) == 12:
            raise ValueError("in halves")
        if rows[0].seed >= 6:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    engine.before = fail
    queue.hold()
    tasks = await submit(queue, *range(12), priority=priority)
    queue.release()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [name_of(outcome.result) for outcome in outcomes[:6]] == list(range(6))
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes[6:])


async def test_who_comes_after_those_that_left_a_busy_queue_is_served(start, submit, engine, clock):
    queue = await start()
    engine.gate.clear()
    [running] = await submit(queue, 0, priority=Priority.BYPASS)
    await until(engine.entered.is_set)
    [waiting] = await submit(queue, 1)
    await settle()
    waiting.cancel()
    await settle()
    engine.gate.set()
    await running
    await settle()
    [later] = await submit(queue, 2)
    assert name_of((await clock.keep_going(later)).result) == 2
