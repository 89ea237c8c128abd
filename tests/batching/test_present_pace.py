"""A machine that becomes slow: new texts are refused by its present pace, and those that were let in are kept."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import Priority
from kokoro_server.batching.cost import RECENT_FORWARDS, CostModel, ForwardPass
from kokoro_server.errors import Expired, TooBusy
from tests.batching.doubles import as_caller, names, shut, until
from tests.batching.test_admission import teach
from tests.batching.test_caller_limits import admitted
from tests.batching.test_speed import TimedEngine, speak


async def run_first(queue, submit, engine, *others: int):
    """Have row 0 at work, and `others` wait behind it."""
    shut(engine)
    [running] = await submit(queue, 0)
    await until(engine.entered.is_set)
    return [running, *await submit(queue, *others)]


@pytest.mark.parametrize("priority", Priority)
async def test_what_was_let_in_is_kept_when_the_pace_falls(start, submit, engine, clock, priority):
    queue = await start(max_batch_size=1, engine_timeout=10_000, job_timeout=30)
    await teach(queue, submit, engine, clock, seconds=2.0)
    tasks = await run_first(queue, submit, engine)
    tasks += await submit(queue, *range(1, 12), priority=priority)
    await clock.advance(31)
    assert not any(task.done() for task in tasks)
    engine.before = lambda _rows: clock.pass_time(20.0)
    engine.gate.set()
    assert sorted(names(await clock.keep_going(asyncio.gather(*tasks)))) == list(range(12))
    assert queue.snapshot()["performance"]["expired"] == 0


async def test_a_client_that_set_a_limit_is_told_when_it_has_passed(start, submit, engine, clock):
    queue = await start(max_batch_size=1, engine_timeout=10_000)
    [running] = await run_first(queue, submit, engine)
    [late] = await submit(queue, 1, deadline=queue.now() + 5)
    await clock.advance(5)
    assert isinstance(late.exception(), Expired)
    engine.gate.set()
    await running


async def test_a_batch_that_takes_longer_than_predicted_counts_before_it_ends(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    await teach(queue, submit, engine, clock, seconds=2.0)
    tasks = await run_first(queue, submit, engine, *range(1, 6))
    assert queue.predicted_wait() == pytest.approx(12.0, rel=0.05)
    assert admitted(queue, "-")
    clock.pass_time(20.0)
    with pytest.raises(TooBusy) as refusal, queue.admit():
        pass
    wait = queue.predicted_wait()
    assert wait == pytest.approx(5 * 2.0 * 4, rel=0.05)  # batches of 2, 2 and 20 s
    assert refusal.value.retry_after == pytest.approx(wait - 30.0, abs=1.0)
    engine.gate.set()
    await clock.keep_going(asyncio.gather(*tasks))


async def test_the_last_few_batches_are_the_pace_whatever_was_usual(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    for _ in range(10):
        await teach(queue, submit, engine, clock, seconds=0.5)
    engine.before = lambda _rows: clock.pass_time(5.0)
    await speak(queue, submit, *range(RECENT_FORWARDS))
    queue.hold()
    await submit(queue, *range(10))
    assert queue.predicted_wait() == pytest.approx(50.0, rel=0.1)
    assert not admitted(queue, "-")
    assert admitted(queue, "another")  # callers take turns: one entry goes before its own


async def test_a_machine_that_is_fast_again_admits_again(start, submit, engine, clock):
    queue = await start(max_batch_size=1)
    for _ in range(10):
        await teach(queue, submit, engine, clock, seconds=5.0)
    engine.before = lambda _rows: clock.pass_time(0.5)
    await speak(queue, submit, *range(RECENT_FORWARDS))
    queue.hold()
    await submit(queue, *range(10))
    assert queue.predicted_wait() == pytest.approx(5.0, rel=0.1)
    assert admitted(queue, "-")


async def test_batches_are_smaller_while_a_full_one_would_take_too_long(start, submit, engine, clock):
    queue = await start(engine_timeout=60)  # a batch should take a quarter of it
    engine.before = lambda rows: clock.pass_time(2.0 * len(rows))
    for number in range(30):
        await submit.held(queue, *range(number % 4 + 1))
    await submit.held(queue, *range(4))
    assert engine.calls[-1] == [0, 1, 2, 3]
    engine.before = lambda rows: clock.pass_time(14.0 * len(rows))
    for _ in range(RECENT_FORWARDS):
        await submit.held(queue, 0)
    before = len(engine.calls)
    outcomes = await submit.held(queue, *range(4))
    assert names(outcomes) == [0, 1, 2, 3]
    assert max(map(len, engine.calls[before:])) < 4


async def test_the_speed_measured_at_the_start_counts_before_the_first_batch(start, submit, clock):
    queue = await start(engines=[TimedEngine(clock, measured=4.0, true_factor=4.0)])
    queue.hold()
    await submit(queue, *range(6))  # 45 frames each: 4.5 s
    assert queue.predicted_wait() == pytest.approx(27.0)
    assert admitted(queue, "-")
    await submit(queue, 6)
    assert not admitted(queue, "-")


async def test_a_machine_that_is_busy_when_the_server_starts_admits_by_the_pace_it_has(start, submit, clock):
    """A crowd that comes at once: nothing but the measurement tells by then that others use the cores."""
    engine = TimedEngine(clock, measured=0.2, true_factor=40.0, present=8.0)
    queue = await start(engines=[engine], engine_timeout=10_000)
    assert queue.real_time_factor() == 0.2  # by which streams are cut
    queue.hold()
    kept = list[asyncio.Task[object]]()
    for name in range(16):
        if admitted(queue, "-"):
            kept += await submit(queue, name)
    assert len(kept) == 4  # 45 frames each: 9 s
    queue.release()
    assert names(await clock.keep_going(asyncio.gather(*kept))) == list(range(4))
    assert queue.snapshot()["performance"]["expired"] == 0


async def test_what_was_let_in_is_kept_while_its_client_waits(start, submit, clock):
    queue = await start(queue_timeout=3, job_timeout=3)
    queue.hold()
    tasks = [*await submit(queue, 0), *await submit(queue, 1, priority=Priority.BULK)]
    await clock.advance(100_000)
    assert not any(task.done() for task in tasks)
    tasks[0].cancel()
    queue.release()
    assert names(await clock.keep_going(asyncio.gather(tasks[1]))) == [1]


async def test_the_later_texts_of_a_request_are_not_refused_for_the_first_ones(start, submit, engine, clock):
    queue = await start(max_batch_size=1, job_timeout=30)
    await teach(queue, submit, engine, clock, seconds=2.0)
    ticket = queue.ticket(priority=Priority.BULK)
    queue.hold()
    with queue.admit(ticket):
        await submit(queue, *range(20), priority=Priority.BULK)
        with queue.admit(ticket):
            assert not admitted(queue, "-", priority=Priority.BULK)


async def test_a_caller_that_was_kept_delays_another_by_no_more_than_its_turn(start, submit, engine, clock):
    queue = await start(max_batch_size=1, engine_timeout=10_000)
    with as_caller("many"):
        kept = await run_first(queue, submit, engine, *range(1, 20))
    await clock.advance(100)
    with as_caller("one"):
        [other] = await submit(queue, 50)
    engine.gate.set()
    await clock.keep_going(asyncio.gather(other, *kept))
    assert engine.calls.index([50]) <= 2


def test_the_slowdown_of_costs_that_nothing_has_taught_is_none():
    assert CostModel().slowdown() == CostModel().slowdown(100.0, 0.0) == 1.0


def test_a_batch_that_is_on_time_does_not_make_the_pace_faster():
    costs = CostModel()
    for _ in range(20):
        costs.learn(ForwardPass(1, 100, 100, 100.0, seconds=2.0))
    assert costs.slowdown(100.0, 0.1) == costs.slowdown(100.0, 1.9) == pytest.approx(1.0)
    assert costs.slowdown(100.0, 11.0) == pytest.approx(2.5)
