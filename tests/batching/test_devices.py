"""Several devices behind one queue. Names are arrival order; each engine takes four rows by default."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kokoro_server.batching import Priority
from kokoro_server.engine.protocol import EngineLimits
from kokoro_server.observability.metrics import Metrics
from tests.batching.doubles import EchoEngine, make_engines, make_result, make_row, name_of, names, settle, shut, until


async def collect(outcomes) -> list[int]:
    return [name_of(outcome.result) async for outcome in outcomes]


async def teach(queue, submit, clock, engines, fixed: float, per_frame: float) -> None:
    """Let every device see a dozen batches, none of which takes longer because another runs beside it."""

    def before(rows):
        clock.pass_time(fixed + per_frame * make_result(rows[0]).durations.sum())

    for engine in engines:
        engine.before = before
    for tokens in (10, 20, 30, 40) * 3 * len(engines):
        queue.hold()
        [task] = await submit(queue, 0, tokens=tokens)
        queue.release()
        await task
    for engine in engines:
        engine.before = lambda _rows: None
        engine.calls.clear()
    submit.tasks.clear()


async def test_devices_run_at_the_same_time(start, submit, pair):
    queue = await start(engines=pair)
    shut(*pair)
    tasks = await submit(queue, *range(8))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    assert queue.snapshot()["queue_status"]["running_rows"] == 8
    for engine in pair:
        engine.gate.set()
    assert names(await asyncio.gather(*tasks)) == list(range(8))
    assert sorted(map(sorted, pair[0].calls + pair[1].calls)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


async def test_each_device_has_a_thread_of_its_own_and_one_call_at_a_time(start, submit):
    engines = make_engines(3)
    inside = [0, 0, 0]
    most = [0, 0, 0]

    def counting(number):
        def before(_rows):
            inside[number] += 1
            most[number] = max(most[number], inside[number])

        def after(results):
            inside[number] -= 1
            return results

        return before, after

    for number, engine in enumerate(engines):
        engine.before, engine.after = counting(number)
    queue = await start(engines=engines)
    assert names(await submit.held(queue, *range(100))) == list(range(100))
    assert most == [1, 1, 1]


async def test_a_busy_device_does_not_hold_up_what_comes_next(start, submit, clock, pair):
    queue = await start(engines=pair)
    shut(pair[0])
    [slow] = await submit(queue, 0)
    await clock.advance(0.01)
    await until(pair[0].entered.is_set)
    [quick] = await submit(queue, 1)
    await clock.advance(0.01)
    assert name_of((await quick).result) == 1
    assert not slow.done()
    pair[0].gate.set()
    assert name_of((await slow).result) == 0


async def test_what_waits_is_shared_by_all_that_are_free(start, submit):
    engines = make_engines(3)
    queue = await start(engines=engines)
    outcomes = await submit.held(queue, 0, 1, 2, 3)
    assert names(outcomes) == [0, 1, 2, 3]
    assert [engine.calls for engine in engines] == [[[0, 1]], [[2]], [[3]]]


async def test_a_part_that_costs_less_than_to_start_it_is_not_split_off(start, submit, clock, pair):
    queue = await start(engines=pair)
    await teach(queue, submit, clock, pair, fixed=1.0, per_frame=0.01)  # a batch costs as much as 100 frames to start
    assert names(await submit.held(queue, 0, 1, 2, 3)) == [0, 1, 2, 3]  # 180 frames
    assert sorted(map(len, pair[0].calls + pair[1].calls)) == [4]
    assert names(await submit.held(queue, *range(5))) == list(range(5))  # 225
    assert sorted(map(len, pair[0].calls + pair[1].calls)) == [2, 3, 4]


async def test_the_least_busy_takes_the_next_batch(start, submit, clock, pair):
    queue = await start(engines=pair)
    pair[0].before = lambda _rows: clock.pass_time(1.0)
    for name in range(6):
        await submit.held(queue, name)
        await clock.advance(0.1)
    assert (pair[0].calls, pair[1].calls) == ([[0]], [[1], [2], [3], [4], [5]])
    await clock.advance(600)  # the second of a long time ago counts for nothing now
    await submit.held(queue, 6)
    assert pair[0].calls == [[0], [6]]


async def test_equally_busy_devices_take_turns(start, submit, clock, pair):
    queue = await start(engines=pair)
    for name in range(6):
        await clock.advance(0.001)
        await submit.held(queue, name)
    assert (pair[0].calls, pair[1].calls) == ([[0], [2], [4]], [[1], [3], [5]])


async def test_a_window_is_kept_open_while_a_device_is_free(start, submit, clock, pair):
    queue = await start(engines=pair)
    shut(pair[0])
    tasks = await submit(queue, 0)
    await clock.advance(0.002)
    await until(pair[0].entered.is_set)
    tasks += await submit(queue, 1)
    await clock.advance(0.001)
    pair[0].gate.set()
    await until(tasks[0].done)
    await settle()
    assert not tasks[1].done()  # it gathers company for another millisecond: it did not have to wait for a device
    tasks += await submit(queue, 2)
    await clock.advance(0.002)
    assert [outcome.fire_reason for outcome in await asyncio.gather(*tasks)] == ["quiet"] * 3


async def test_entries_that_gathered_while_all_were_busy_go_at_once(start, submit, clock, pair):
    queue = await start(engines=pair)
    shut(*pair)
    running = await submit(queue, *range(8))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    later = await submit(queue, 8, 9)
    pair[1].gate.set()
    outcomes = await asyncio.gather(*later)
    assert [outcome.fire_reason for outcome in outcomes] == ["device_free"] * 2
    assert pair[1].calls[1:] == [[8, 9]]
    pair[0].gate.set()
    assert names(await asyncio.gather(*running)) == list(range(8))


async def test_bypass_entries_go_to_different_devices(start, submit, pair):
    queue = await start(engines=pair)
    shut(*pair)
    tasks = await submit(queue, 0, 1, priority=Priority.BYPASS)
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    for engine in pair:
        engine.gate.set()
    assert [outcome.fire_reason for outcome in await asyncio.gather(*tasks)] == ["bypass"] * 2


async def test_a_batch_fits_the_device_that_takes_it(start, submit, pair):
    pair[0].limits = EngineLimits(510, 1, 100_000)
    pair[1].limits = EngineLimits(510, 4, 100)  # two rows of 45 frames
    queue = await start(engines=pair)
    assert names(await submit.held(queue, *range(30))) == list(range(30))
    assert {len(call) for call in pair[0].calls} == {1}
    assert {len(call) for call in pair[1].calls} <= {1, 2}
    assert queue.max_batch_size == 4


async def test_cancelled_entries_reach_no_device(start, submit, pair):
    queue = await start(engines=pair)
    queue.hold()
    tasks = await submit(queue, *range(8))
    for name in (1, 4, 6):
        tasks[name].cancel()
    queue.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(name for engine in pair for call in engine.calls for name in call) == [0, 2, 3, 5, 7]


async def test_those_who_leave_a_running_batch_cost_the_others_nothing(start, submit, pair):
    queue = await start(engines=pair)
    shut(*pair)
    tasks = await submit(queue, *range(8))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    for name in (0, 5):
        tasks[name].cancel()
    for engine in pair:
        engine.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert names(outcomes[name] for name in (1, 2, 3, 4, 6, 7)) == [1, 2, 3, 4, 6, 7]


async def test_the_predicted_wait_is_shared(start, submit, clock, pair):
    queue = await start(engines=pair, max_batch_size=1)
    await teach(queue, submit, clock, pair, fixed=1.1, per_frame=0.02)  # 2 s a row
    queue.hold()
    await submit(queue, *range(10))
    assert queue.predicted_wait() == pytest.approx(10.0, rel=0.05)


async def test_there_is_no_wait_while_a_device_is_free(start, submit, clock, pair):
    queue = await start(engines=pair, max_batch_size=1)
    await teach(queue, submit, clock, pair, fixed=1.1, per_frame=0.02)
    shut(*pair)
    await submit(queue, 0)
    await until(lambda: any(engine.entered.is_set() for engine in pair))
    assert queue.predicted_wait() == 0.0
    await submit(queue, 1)
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    assert queue.predicted_wait() == pytest.approx(2.0, rel=0.05)


async def test_a_job_keeps_every_device_supplied(start, clock, pair):
    queue = await start(engines=pair)
    queue.hold()
    outcomes = queue.submit_all(map(make_row, range(30)), voice="a")
    job = asyncio.create_task(collect(outcomes))
    await settle()
    assert queue.snapshot()["queue_status"]["current_size"] == 16
    queue.release()
    assert await clock.keep_going(job) == list(range(30))


async def test_figures_of_each_device(start, submit, clock, pair, caplog):
    caplog.set_level(logging.INFO, logger="kokoro_server.batching")
    metrics = Metrics()
    queue = await start(engines=pair, metrics=metrics)
    for engine, seconds in zip(pair, (1.0, 3.0), strict=True):
        engine.before = lambda _rows, seconds=seconds: clock.pass_time(seconds)
    await submit.held(queue, 0)
    await submit.held(queue, 1)
    shut(*pair)
    await submit(queue, *range(2, 5))
    await clock.advance(0.01)
    await until(lambda: any(engine.entered.is_set() for engine in pair))
    first, second = queue.snapshot()["devices"]
    assert (first["device"], first["batches"], first["rows"], first["running_rows"]) == ("cuda:0", 1, 1, 2)
    assert (second["device"], second["batches"], second["rows"], second["running_rows"]) == ("cuda:1", 1, 1, 1)
    assert 0 < first["busy_share"] < second["busy_share"] < 1
    performance = queue.snapshot()["performance"]
    assert (performance["total_batches"], performance["total_requests"]) == (2, 2)
    text = metrics.render().decode()
    assert 'tts_device_batches_total{device="cuda:0"} 1.0' in text
    assert 'tts_device_rows_total{device="cuda:1"} 1.0' in text
    assert 'tts_device_busy_seconds_total{device="cuda:1"} 3.0' in text
    assert 'tts_device_rows_running{device="cuda:0"} 2.0' in text
    assert 'tts_device_up{device="cuda:0"} 1.0' in text
    assert "tts_requests_running 3.0" in text
    assert [message.rpartition(" ")[2] for message in caplog.messages] == ["device=cuda:0", "device=cuda:1"]


async def test_one_device_given_twice_has_two_names(start):
    engines = [EchoEngine(), EchoEngine(), EchoEngine()]
    queue = await start(engines=engines)
    assert list(queue.device_states()) == ["double", "double#2", "double#3"]
