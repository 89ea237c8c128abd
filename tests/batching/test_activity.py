"""How busy a device truly is: what its engine computes, not what the event loop makes of it."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from kokoro_server.batching.devices.activity import WINDOW, BusyShare
from kokoro_server.engine.protocol import Gap
from kokoro_server.observability.metrics import Metrics
from tests.batching.doubles import PATIENCE, EchoEngine, FakeClock

HELD = {"graphs": 3.0, "graph_captures": 5.0, "device_bytes": 2e9}


def block_until_computed(engine, calls):
    """Keep the event loop busy until the device is done."""
    late = time.monotonic() + PATIENCE
    while engine.finished < calls:
        assert time.monotonic() < late
        time.sleep(0.001)
    time.sleep(0.05)  # between the end of the call and that of its measurement


class CountedEngine(EchoEngine):
    finished = 0

    def synthesize(self, rows):
        results = super().synthesize(rows)
        self.finished += 1
        return results


class MeasuredEngine(EchoEngine):
    """An engine that measures on its device."""

    busy = 0.0

    def busy_seconds(self):
        return self.busy

    def take_gaps(self):
        return [Gap(since=float("inf"), seconds=0.004), Gap(since=0.0, seconds=9.0)]

    def resources(self):
        return HELD


def only_device(queue):
    [found] = json.loads(json.dumps(queue.snapshot()))["devices"]
    return found


async def test_a_busy_event_loop_is_no_busy_device(start, submit, clock):
    engine = CountedEngine(max_rows=1)
    metrics = Metrics()
    queue = await start(engines=[engine], metrics=metrics)
    engine.before = lambda _rows: clock.pass_time(1.0)
    engine.gate.clear()
    tasks = await submit(queue, 0, 1)
    await clock.advance(0.01)
    engine.gate.set()
    block_until_computed(engine, 1)
    clock.pass_time(5.0)  # the loop is late with the first answer, and with the second batch
    await asyncio.gather(*tasks)
    found = only_device(queue)
    assert found["busy_seconds"] == pytest.approx(2.0, abs=0.05)
    assert found["busy_share"] == pytest.approx(2 / 7, abs=0.02)
    assert found["idle_gap_ms"]["p50"] == pytest.approx(5000, abs=1)
    text = metrics.render().decode()
    assert 'tts_device_gap_seconds_sum{device="double"} 5.0' in text
    assert 'tts_device_gap_seconds_count{device="double"} 1.0' in text


async def test_no_gap_is_counted_when_nothing_waited(start, submit, clock, engine):
    queue = await start()
    await submit.held(queue, 0)
    clock.pass_time(60.0)
    await submit.held(queue, 1)
    assert only_device(queue)["idle_gap_ms"] == {"p50": 0.0, "p95": 0.0}


async def test_a_call_counts_while_it_runs(start, submit, clock, engine):
    queue = await start()
    engine.gate.clear()
    [task] = await submit(queue, 0)
    await clock.advance(1.0)
    for _ in range(100):
        if engine.entered.is_set():
            break
        await asyncio.sleep(0.01)
    before = only_device(queue)["busy_seconds"]
    clock.pass_time(3.0)
    assert only_device(queue)["busy_seconds"] == pytest.approx(before + 3.0)
    engine.gate.set()
    await task


async def test_an_engine_that_measures_itself_is_believed(start, submit, clock):
    engine, metrics = MeasuredEngine(), Metrics()
    queue = await start(engines=[engine], metrics=metrics)
    engine.before = lambda _rows: clock.pass_time(1.0)
    engine.busy = 0.25
    await submit.held(queue, 0)
    found = only_device(queue)
    assert found["busy_seconds"] == 0.25
    assert found["busy_share"] == pytest.approx(0.25, abs=0.01)
    assert found["idle_gap_ms"] == {"p50": 4.0, "p95": 4.0}
    assert found["resources"] == HELD
    text = metrics.render().decode()
    assert 'tts_device_busy_seconds_total{device="double"} 0.25' in text
    assert 'tts_device_graphs{device="double"} 3.0' in text
    assert 'tts_device_graph_captures_total{device="double"} 5.0' in text
    assert 'tts_device_memory_bytes{device="double"} 2e+09' in text
    assert "tts_device_pinned_bytes" not in text


def test_the_busy_share_is_of_the_last_seconds():
    clock = FakeClock()
    share, busy = BusyShare(clock.now()), 0.0
    assert share.value(clock.now(), busy) == 0.0
    for _ in range(200):
        clock.pass_time(0.1)
        busy += 0.05
        share.sample(clock.now(), busy)
    assert share.value(clock.now(), busy) == pytest.approx(0.5, abs=0.02)
    clock.pass_time(WINDOW / 2)
    assert share.value(clock.now(), busy) == pytest.approx(0.25, abs=0.02)
    clock.pass_time(10 * WINDOW)
    assert share.value(clock.now(), busy) == pytest.approx(0.0, abs=0.01)


def test_the_busy_share_of_a_device_that_begins_again():
    clock = FakeClock()
    share = BusyShare(clock.now())
    clock.pass_time(100 * WINDOW)
    share.sample(clock.now(), 0.0)  # when a batch is dispatched
    clock.pass_time(WINDOW / 4)
    assert share.value(clock.now(), WINDOW / 4) == pytest.approx(0.25)
