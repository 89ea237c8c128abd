"""An engine that takes a second call: the next batch is queued behind the one that is about to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kokoro_server.batching import BatchQueue, Outcome, Priority
from kokoro_server.batching.devices.activity import CallActivity
from kokoro_server.batching.devices.device import FORM_AHEAD
from kokoro_server.engine.protocol import EngineLimits, Result, Row
from kokoro_server.errors import EngineUnavailable, Expired
from tests.batching.doubles import EchoEngine, FakeClock, learn_overhead, name_of, settle, until

FIXED = 100  # frames that a batch costs to start, at a millisecond each
ROW = 0.001 * (FIXED + 45)  # seconds of one row of ten phonemes


class TwoCallEngine(EchoEngine):
    """Works on one call at a time, as a device does; a second waits inside. `gate` holds the one at work."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = EngineLimits(510, 4, 100_000, max_in_flight=2)
        self._turn = threading.Lock()
        self.inside = self.most = 0

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            with self._turn:
                return super().synthesize(rows)
        finally:
            self.inside -= 1


@pytest.fixture
def engine() -> TwoCallEngine:
    return TwoCallEngine()


Pair = tuple[BatchQueue, asyncio.Task[Outcome], asyncio.Task[Outcome]]


@pytest.fixture
async def running(start, submit, engine) -> Callable[..., Awaitable[tuple[BatchQueue, asyncio.Task[Outcome]]]]:
    """A queue and the row that its engine computes until the gate opens."""

    async def begin(**options: Any) -> tuple[BatchQueue, asyncio.Task[Outcome]]:
        queue = await start(**options)
        learn_overhead(queue, FIXED)
        engine.gate.clear()
        queue.hold()
        [task] = await submit(queue, 0)
        queue.release()
        await until(engine.entered.is_set)
        return queue, task

    return begin


@pytest.fixture
async def one_behind(running, submit, engine, clock) -> Callable[..., Awaitable[Pair]]:
    """As `running`, with a second row that waits in the engine for the first."""

    async def begin(**options: Any) -> Pair:
        queue, first = await running(**options)
        await clock.advance(ROW)
        [second] = await submit(queue, 1)
        await until(lambda: engine.inside == 2)
        return queue, first, second

    return begin


async def test_the_next_batch_is_formed_when_the_running_one_is_about_to_end(running, submit, engine, clock):
    queue, first = await running()
    behind = await submit(queue, 1, 2)
    await clock.advance(ROW - FORM_AHEAD - 0.01)
    assert queue.snapshot()["queue_status"]["running_rows"] == 1
    behind += await submit(queue, 3)
    await clock.advance(0.011)
    assert queue.snapshot()["queue_status"]["running_rows"] == 4
    await until(lambda: engine.inside == 2)
    assert engine.calls == [[0]]
    engine.gate.set()
    outcomes = await asyncio.gather(first, *behind)
    assert [name_of(outcome.result) for outcome in outcomes] == [0, 1, 2, 3]
    assert engine.calls == [[0], [1, 2, 3]]
    assert [outcome.fire_reason for outcome in outcomes[1:]] == ["device_free"] * 3


async def test_there_is_one_batch_behind_at_most(one_behind, submit, engine, clock):
    queue, first, second = await one_behind()
    third = await submit(queue, 2, 3)
    await clock.advance(10)
    status = queue.snapshot()["queue_status"]
    assert (status["running_rows"], status["current_size"]) == (2, 2)
    engine.gate.set()
    await asyncio.gather(first, second, *third)
    assert engine.calls == [[0], [1], [2, 3]]
    assert engine.most == 2


async def test_an_engine_that_takes_one_call_gets_one(running, submit, engine, clock):
    engine.limits = EngineLimits(510, 4, 100_000)
    queue, first = await running()
    others = await submit(queue, 1)
    await clock.advance(10)
    assert queue.snapshot()["queue_status"]["running_rows"] == 1
    engine.gate.set()
    await asyncio.gather(first, *others)
    assert engine.most == 1


async def test_a_hold_holds_what_would_go_behind(running, submit, engine, clock):
    queue, first = await running()
    queue.hold()
    others = await submit(queue, 1)
    await clock.advance(10)
    assert engine.inside == 1
    queue.release()
    await until(lambda: engine.inside == 2)
    engine.gate.set()
    await asyncio.gather(first, *others)


async def test_the_predicted_wait_counts_what_is_behind(one_behind, engine):
    queue, first, second = await one_behind(max_batch_size=1)  # at the time when the first should be done
    assert queue.predicted_wait() == pytest.approx(ROW, rel=0.05)
    engine.gate.set()
    await asyncio.gather(first, second)


async def test_the_time_behind_another_is_not_counted_twice(one_behind, engine, clock):
    queue, first, second = await one_behind()
    engine.before = lambda _rows: clock.pass_time(1.0)
    engine.gate.set()
    outcomes = await asyncio.gather(first, second)
    assert outcomes[0].inference_ms == pytest.approx(1000 * (1.0 + ROW))
    assert outcomes[1].inference_ms == pytest.approx(1000)
    assert queue.snapshot()["devices"][0]["busy_share"] <= 1


async def test_when_the_running_one_hangs_both_fail(one_behind, engine, clock):
    queue, first, second = await one_behind(engine_timeout=60)
    await clock.advance(60)
    with pytest.raises(Expired, match="given up"):
        await first
    with pytest.raises(EngineUnavailable, match="stopped working"):
        await second
    assert (queue.alive, queue.device_states()) == (False, {"double": "lost"})
    engine.gate.set()


async def test_a_thread_that_dies_costs_its_own_batch(one_behind, submit, engine):
    queue, first, second = await one_behind()

    def before(rows):
        if rows[0].seed == 0:
            raise SystemExit(1)

    engine.before = before
    engine.gate.set()
    with pytest.raises(EngineUnavailable):
        await first
    assert name_of((await second).result) == 1
    assert [name_of(outcome.result) for outcome in await submit.held(queue, 2, 3)] == [2, 3]


async def test_stop_waits_for_both(one_behind, engine):
    queue, first, second = await one_behind()
    stopping = asyncio.create_task(queue.stop())
    await settle()
    assert not stopping.done()
    engine.gate.set()
    await stopping
    assert [name_of((await task).result) for task in (first, second)] == [0, 1]


async def test_an_idle_device_comes_before_a_busy_one(start, submit, clock):
    pair = [TwoCallEngine(), TwoCallEngine()]
    queue = await start(engines=pair)
    for engine in pair:
        engine.gate.clear()
    tasks = []
    for name in range(2):
        tasks += await submit(queue, name, priority=Priority.BYPASS)
        await until(lambda name=name: sum(engine.inside for engine in pair) == name + 1)
    assert [engine.calls for engine in pair] == [[[0]], [[1]]]
    for engine in pair:
        engine.gate.set()
    await asyncio.gather(*tasks)


def test_service_time_does_not_count_an_overlap_twice():
    calls = CallActivity(FakeClock())
    assert calls.service_seconds(10.0, 12.0) == 2.0
    assert calls.service_seconds(11.0, 13.5) == 1.5
    assert calls.service_seconds(14.0, 15.0) == 1.0


BUCKETED = EngineLimits(510, 16, 100_000, row_buckets=(1, 2, 4, 8, 16))


@pytest.fixture
def bucketed() -> EchoEngine:
    engine = EchoEngine()
    engine.limits = BUCKETED
    return engine


def test_rows_are_padded_to_the_next_bucket():
    assert [BUCKETED.bucketed_rows(rows) for rows in (1, 2, 3, 5, 9, 16, 17)] == [1, 2, 4, 8, 16, 16, 17]
    assert EngineLimits(510, 16, 100_000).bucketed_rows(5) == 5


async def test_rows_just_past_a_bucket_wait_for_the_next_batch(start, submit, bucketed):
    queue = await start(engines=[bucketed])
    learn_overhead(queue, fixed=100)
    await submit.held(queue, *range(9))  # sixteen would be computed
    assert list(map(len, bucketed.calls)) == [8, 1]


async def test_rows_that_nearly_fill_a_bucket_go_together(start, submit, bucketed):
    queue = await start(engines=[bucketed])
    learn_overhead(queue, fixed=100)
    await submit.held(queue, *range(15))
    assert list(map(len, bucketed.calls)) == [15]


async def test_where_a_batch_costs_much_to_start_more_rows_go_along(start, submit, bucketed):
    queue = await start(engines=[bucketed])
    learn_overhead(queue, fixed=10_000)
    await submit.held(queue, *range(9))
    assert list(map(len, bucketed.calls)) == [9]


async def test_rows_that_cost_nothing_fill_the_bucket_in_a_crowd_of_first_pieces(start, submit, bucketed):
    queue = await start(engines=[bucketed])
    learn_overhead(queue, fixed=45)
    queue.hold()
    tasks = await submit(queue, *range(16), priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*tasks)
    assert len(bucketed.calls[0]) == 8  # seven would be enough for the time


async def test_dummy_rows_count_as_padding(start, submit, bucketed):
    queue = await start(engines=[bucketed])
    await submit.held(queue, 0, 1, 2)
    assert queue.snapshot()["performance"]["recent"]["padding_ratio"] == pytest.approx(4 / 3, abs=0.001)
