"""When a batch goes, and why: the waiting window and what closes it. The engine takes four rows."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import Priority
from kokoro_server.engine.protocol import EngineLimits
from tests.batching.doubles import name_of, reasons, until


async def test_a_lone_entry_goes_after_two_quiet_milliseconds(start, submit, engine, clock):
    queue = await start()
    [task] = await submit(queue, 0)
    await clock.advance(0.0019)
    assert engine.calls == []
    await clock.advance(0.0002)
    outcome = await task
    assert outcome.fire_reason == "quiet"
    assert outcome.queue_ms == pytest.approx(2.0)


async def test_arrivals_keep_the_window_open(start, submit, engine, clock):
    queue = await start()
    tasks = await submit(queue, 0)
    await clock.advance(0.0015)
    tasks += await submit(queue, 1)
    await clock.advance(0.0015)
    assert engine.calls == []
    await clock.advance(0.001)
    assert await reasons(tasks) == ["quiet", "quiet"]
    assert engine.calls == [[0, 1]]


async def test_the_window_never_outlasts_max_wait(start, submit, clock):
    queue = await start(max_wait_ms=5)
    tasks = await submit(queue, 0)
    for name in range(1, 3):
        await clock.advance(0.0018)
        tasks += await submit(queue, name)
    await clock.advance(0.0015)
    assert await reasons(tasks) == ["max_wait"] * 3


async def test_the_window_waits_for_those_on_their_way(start, submit, engine, clock):
    queue = await start()
    with queue.admit():
        [first] = await submit(queue, 0)
        await clock.advance(0.005)
        assert engine.calls == []
    [second] = await submit(queue, 1)
    await clock.advance(0.002)
    assert await reasons([first, second]) == ["quiet", "quiet"]
    assert engine.calls == [[0, 1]]


async def test_it_waits_no_longer_than_min_wait_for_them(start, submit, engine, clock):
    queue = await start()
    with queue.admit():
        [first] = await submit(queue, 0)
        await clock.advance(0.0101)
        outcome = await first
    assert outcome.fire_reason == "quiet"
    assert outcome.queue_ms == pytest.approx(10.0)


async def test_when_nobody_is_coming_any_more_it_goes(start, submit, clock):
    queue = await start()
    with queue.admit():
        [first] = await submit(queue, 0)
        await clock.advance(0.004)
    await clock.advance(0.002)
    assert (await first).queue_ms == pytest.approx(6.0)


async def test_the_window_is_no_longer_than_a_batch_costs_at_least(start, submit, engine, clock):
    engine.before = lambda rows: clock.pass_time(0.004 + 0.001 * len(rows))
    queue = await start()
    for count in (1, 2, 3, 4) * 3:
        await submit.held(queue, *range(count))
    engine.calls.clear()
    with queue.admit():
        [task] = await submit(queue, 0)
        await clock.advance(0.0035)
        assert engine.calls == []
        await clock.advance(0.001)
        assert (await task).fire_reason == "max_wait"
    assert engine.calls == [[0]]


async def test_four_fifths_full_is_full_enough(start, submit, engine):
    engine.limits = EngineLimits(510, 10, 100_000)
    queue = await start()
    assert await reasons(await submit(queue, *range(8))) == ["nearly_full"] * 8
    assert engine.calls == [list(range(8))]


async def test_four_fifths_of_the_budget_is_full_enough(start, submit, engine):
    engine.limits = EngineLimits(510, 100, 225)  # ten phonemes are predicted to last 45 frames
    queue = await start()
    assert await reasons(await submit(queue, *range(4))) == ["nearly_full"] * 4


async def test_entries_gather_while_the_device_is_busy(start, submit, engine, clock):
    queue = await start()
    engine.gate.clear()
    tasks = await submit(queue, 0)
    await clock.advance(0.002)
    await until(engine.entered.is_set)
    for name in (1, 2, 3):
        tasks += await submit(queue, name)
        await clock.advance(1.0)
    assert engine.calls == [[0]]
    engine.gate.set()
    assert await reasons(tasks) == ["quiet"] + ["device_free"] * 3
    assert engine.calls == [[0], [1, 2, 3]]


async def test_without_batching_each_goes_alone_at_once(start, submit, engine):
    queue = await start(enabled=False)
    outcomes = await asyncio.gather(*await submit(queue, 0, 1, 2))
    assert engine.calls == [[0], [1], [2]]
    assert [name_of(outcome.result) for outcome in outcomes] == [0, 1, 2]
    assert queue.snapshot()["status"] == "disabled"


async def test_a_bypass_entry_does_not_wait(start, submit):
    queue = await start()
    [task] = await submit(queue, 0, priority=Priority.BYPASS)
    outcome = await task
    assert (outcome.fire_reason, outcome.queue_ms) == ("bypass", 0.0)


async def test_a_next_piece_does_not_wait_for_others_either(start, submit):
    queue = await start()
    [task] = await submit(queue, 0, priority=Priority.NEXT)
    outcome = await task
    assert (outcome.fire_reason, outcome.queue_ms) == ("bypass", 0.0)
