"""An engine that takes one row a call, as on a CPU, and where that is faster several calls side by side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from kokoro_server.batching import Priority
from kokoro_server.batching.cost import ForwardPass
from kokoro_server.engine.protocol import EngineLimits, Result, Row
from kokoro_server.errors import Expired
from tests.batching.doubles import PATIENCE, EchoEngine, name_of, settle, until

ALONE = EngineLimits(510, 1, 100_000)


class RowEngine(EchoEngine):
    """Holds each row until `allow`; `inside` are the rows at work."""

    def __init__(self, parallel_calls: int) -> None:
        super().__init__()
        self.limits = EngineLimits(510, 1, 100_000, parallel_calls=parallel_calls)
        self.inside: set[int] = set()
        self._allowed: dict[int, threading.Event] = {}

    def allow(self, *names: int) -> None:
        for name in names:
            self._event(name).set()

    def _event(self, name: int) -> threading.Event:
        return self._allowed.setdefault(name, threading.Event())

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        [row] = rows
        self.inside.add(row.seed)
        try:
            assert self._event(row.seed).wait(PATIENCE)
            return super().synthesize(rows)
        finally:
            self.inside.discard(row.seed)


async def test_each_is_answered_when_its_own_row_is_done(start, submit):
    engine = RowEngine(1)
    queue = await start(engines=[engine])
    tasks = await submit(queue, *range(4))
    for name in range(4):
        await until(lambda name=name: engine.inside == {name})
        assert [task.done() for task in tasks] == [earlier < name for earlier in range(4)]
        engine.allow(name)
        outcome = await tasks[name]
        assert (name_of(outcome.result), outcome.batch_size) == (name, 1)


async def test_a_streams_first_piece_goes_between_two_rows(start, submit):
    engine = RowEngine(1)
    queue = await start(engines=[engine])
    rows = await submit(queue, *range(4))
    await until(lambda: engine.inside == {0})
    [first] = await submit(queue, 9, priority=Priority.BYPASS)
    engine.allow(*range(10))
    await asyncio.gather(first, *rows)
    assert engine.calls == [[0], [9], [1], [2], [3]]


async def test_a_row_that_was_cancelled_before_it_began_is_never_started(start, submit):
    engine = RowEngine(1)
    queue = await start(engines=[engine])
    tasks = await submit(queue, *range(4))
    await until(lambda: engine.inside == {0})
    tasks[1].cancel()
    tasks[2].cancel()
    engine.allow(*range(4))
    await asyncio.gather(tasks[0], tasks[3])
    assert engine.calls == [[0], [3]]


async def test_a_lone_row_does_not_wait_for_others_that_could_not_go_with_it(start, submit, engine):
    engine.limits = ALONE
    queue = await start()
    with queue.admit():  # another request is on its way
        [task] = await submit(queue, 0)
        outcome = await task  # the clock stands still
    assert outcome.queue_ms == 0


async def test_calls_that_run_side_by_side_are_given_at_once(start, submit):
    engine = RowEngine(3)
    queue = await start(engines=[engine])
    tasks = await submit(queue, *range(5))
    await until(lambda: engine.inside == {0, 1, 2})
    engine.allow(1)
    assert name_of((await tasks[1]).result) == 1
    await until(lambda: engine.inside == {0, 2, 3})
    snapshot = queue.snapshot()
    assert [device["device"] for device in snapshot["devices"]] == ["double", "double#2", "double#3"]
    assert [device["running_rows"] for device in snapshot["devices"]] == [1, 1, 1]
    assert snapshot["config"]["max_batch_size"] == 1
    engine.allow(*range(5))
    await asyncio.gather(*tasks)
    assert queue.snapshot()["performance"]["batch_sizes"] == {"1": 5}


@pytest.mark.parametrize(
    ("options", "calls"), [({"max_batch_size": 2}, 2), ({"max_batch_size": 9}, 3), ({"enabled": False}, 1)]
)
async def test_settings_can_only_lower_how_many_run_at_once(start, options, calls):
    queue = await start(engines=[RowEngine(3)], **options)
    assert (len(queue.snapshot()["devices"]), queue.max_batch_size) == (calls, 1)


async def test_the_predicted_wait_is_shared_by_the_calls_at_once(start, submit, clock):
    engine = RowEngine(2)
    queue = await start(engines=[engine])
    for device in queue._devices:
        for frames in (45, 90, 135):
            device.costs.learn(ForwardPass(1, frames, frames, float(frames), frames * 2 / 45))  # 2 s a row
    [running] = await submit(queue, 0)
    await until(lambda: engine.inside == {0})
    assert queue.predicted_wait() == 0.0  # the other call is free
    tasks = [running, *await submit(queue, 1)]
    await until(lambda: engine.inside == {0, 1})
    assert queue.predicted_wait() == pytest.approx(2.0)
    tasks += await submit(queue, *range(2, 12))
    assert queue.predicted_wait() == pytest.approx(2.0 + 10 * 2.0 / 2)
    engine.allow(*range(12))
    await asyncio.gather(*tasks)


async def test_a_call_that_hangs_costs_the_others_nothing(start, submit, clock):
    engine = RowEngine(2)
    queue = await start(engines=[engine], engine_timeout=60)
    stuck, other = await submit(queue, 0, 1)
    await until(lambda: engine.inside == {0, 1})
    engine.allow(1)
    await other
    await clock.advance(60)
    with pytest.raises(Expired, match="given up"):
        await stuck
    assert queue.device_states() == {"double": "lost", "double#2": "healthy"}
    [later] = await submit(queue, 2)
    engine.allow(2)
    assert name_of((await later).result) == 2
    engine.allow(0)
    await settle()
    assert queue.alive
