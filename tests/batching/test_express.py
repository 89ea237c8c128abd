"""An engine with another one for what cannot wait: while its own device is at work on bulk, that takes all else."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import Priority
from kokoro_server.batching.policy import STREAM_MEMORY
from kokoro_server.engine.protocol import EngineLimits
from kokoro_server.errors import EngineUnavailable
from kokoro_server.observability.metrics import Metrics
from tests.batching.doubles import EchoEngine, learn_overhead, make_engines, names, settle, shut, until


class PairedEngine(EchoEngine):
    """Four rows a call and two calls at once; beside it an express engine for two rows."""

    device = "cuda:0"

    def __init__(self) -> None:
        super().__init__()
        self.limits = EngineLimits(510, 4, 100_000, max_in_flight=2)
        self.express: EchoEngine | None = EchoEngine(max_rows=2)


@pytest.fixture
def engine() -> PairedEngine:
    return PairedEngine()


@pytest.fixture
def express(engine) -> EchoEngine:
    assert engine.express
    return engine.express


@pytest.fixture
async def at_bulk(start, submit, engine, express):
    """A queue whose engine computes a row of bulk, named 0, until its gate opens."""

    async def begin(**options):
        queue = await start(**options)
        shut(engine, express)
        express.gate.set()
        queue.hold()
        [task] = await submit(queue, 0, priority=Priority.BULK)
        queue.release()
        await until(engine.entered.is_set)
        return queue, task

    yield begin
    express.gate.set()


@pytest.mark.parametrize("priority", [Priority.BYPASS, Priority.NEXT, Priority.NORMAL])
async def test_what_is_urgent_does_not_wait_for_bulk(at_bulk, submit, engine, express, priority):
    queue, bulk = await at_bulk()
    [urgent] = await submit(queue, 1, priority=priority)
    assert names([await urgent]) == [1]
    assert not bulk.done()
    assert (engine.calls, express.calls) == ([[0]], [[1]])
    engine.gate.set()
    await bulk


async def test_beside_anything_else_it_waits_for_the_device(start, submit, engine, express, clock):
    queue = await start()
    shut(engine)
    [first] = await submit(queue, 0)
    await clock.advance(1)
    await until(engine.entered.is_set)
    [urgent] = await submit(queue, 1, priority=Priority.BYPASS)
    await settle()
    assert not express.calls
    engine.gate.set()
    assert names([await first, await urgent]) == [0, 1]
    assert engine.calls == [[0], [1]]


async def test_a_device_at_bulk_takes_no_more_than_bulk(at_bulk, submit, engine, express, clock):
    queue, _ = await at_bulk()
    shut(express)
    await submit(queue, 1, priority=Priority.BYPASS)
    await until(express.entered.is_set)
    waiting = await submit(queue, 2, 3)
    await submit(queue, 10, 11, 12, 13, priority=Priority.BULK)
    await until(lambda: len(engine.calls) == 2)
    assert engine.calls[1] == [10, 11]  # half of a batch, as there is a stream; it is full, and need not wait
    express.gate.set()
    assert names(await asyncio.gather(*waiting)) == [2, 3]
    assert express.calls == [[1], [2, 3]]


async def test_first_pieces_go_without_the_next_ones(at_bulk, submit, engine, express):
    queue, _ = await at_bulk()
    shut(express)
    await submit(queue, 1, priority=Priority.BYPASS)
    await until(express.entered.is_set)
    following = await submit(queue, 4, priority=Priority.NEXT)
    first = await submit(queue, 2, priority=Priority.BYPASS)
    express.gate.set()
    assert names(await asyncio.gather(*following, *first)) == [4, 2]
    assert express.calls == [[1], [2], [4]]


async def test_a_batch_of_bulk_that_is_not_full_waits_for_more_as_any(at_bulk, submit, engine):
    queue, _ = await at_bulk()
    learn_overhead(queue, 100)  # so that the end of the running batch is known to be some time away
    await submit(queue, 10, 11, 12, priority=Priority.BULK)
    await settle()
    assert engine.calls == [[0]]
    await submit(queue, 13, priority=Priority.BULK)
    await until(lambda: len(engine.calls) == 2)


async def test_while_there_are_no_streams_batches_of_bulk_are_full(at_bulk, submit, engine, express, clock):
    queue, _ = await at_bulk()
    [stream] = await submit(queue, 1, priority=Priority.BYPASS)
    await stream
    await clock.advance(STREAM_MEMORY + 1)
    await submit(queue, 10, 11, 12, 13, priority=Priority.BULK)
    await until(lambda: len(engine.calls) == 2)
    assert engine.calls[1] == [10, 11, 12, 13]


async def test_nothing_is_done_in_the_background_beside_bulk(start, submit, engine, express, clock):
    steps = []
    express.background_step = lambda: steps.append(1) or True  # type: ignore[attr-defined]
    queue = await start()
    await until(lambda: steps)
    shut(engine)
    queue.hold()
    [bulk] = await submit(queue, 0, priority=Priority.BULK)
    queue.release()
    await until(engine.entered.is_set)
    await clock.advance(0.1)
    before = len(steps)
    await clock.advance(30)
    assert len(steps) == before
    engine.gate.set()
    await bulk
    await clock.keep_going(until(lambda: len(steps) > before))


async def test_a_crowd_has_the_device_too(at_bulk, submit, engine, express, clock):
    queue, _ = await at_bulk()
    shut(express)
    await submit(queue, 1)
    await until(express.entered.is_set)
    crowd = await submit(queue, *range(2, 7))  # more than two batches of the express engine
    await submit(queue, 10, 11, 12, 13, priority=Priority.BULK)
    engine.gate.set()
    await until(lambda: [2, 3, 4, 5] in engine.calls)
    express.gate.set()
    await asyncio.gather(*crowd)


async def test_what_is_too_long_for_it_waits_for_the_device(at_bulk, submit, engine, express):
    express.limits = EngineLimits(510, 2, 100)
    queue, bulk = await at_bulk()
    [long] = await submit(queue, 1, priority=Priority.BYPASS, tokens=100)
    await until(lambda: [1] in engine.calls)  # behind the one that runs
    [short] = await submit(queue, 2)
    assert names([await short]) == [2]
    assert express.calls == [[2]]
    engine.gate.set()
    assert names(await asyncio.gather(bulk, long)) == [0, 1]


async def test_a_device_with_nothing_to_do_comes_first(start, submit):
    busy, idle = PairedEngine(), make_engines(2)[1]
    assert busy.express
    queue = await start(engines=[busy, idle])
    shut(busy)
    queue.hold()
    await submit(queue, 0, priority=Priority.BULK)
    queue.release()
    await until(busy.entered.is_set)
    [urgent] = await submit(queue, 1, priority=Priority.BYPASS)
    await urgent
    assert (idle.calls, busy.express.calls) == ([[1]], [])


async def test_without_batching_there_is_none(at_bulk, submit, engine, express):
    queue, bulk = await at_bulk(enabled=False)
    [urgent] = await submit(queue, 1, priority=Priority.BYPASS)
    await settle()
    assert not express.calls
    engine.gate.set()
    await asyncio.gather(bulk, urgent)


async def test_it_is_told_of(at_bulk, submit, engine, express):
    metrics = Metrics()
    queue, bulk = await at_bulk(metrics=metrics)
    shut(express)
    [urgent] = await submit(queue, 1, priority=Priority.BYPASS)
    await until(express.entered.is_set)
    snapshot = queue.snapshot()
    [device] = snapshot["devices"]
    assert snapshot["queue_status"]["running_rows"] == 2
    assert (device["running_rows"], device["express"]["running_rows"]) == (1, 1)
    assert 'device="cuda:0 express"' in metrics.render().decode()
    express.gate.set()
    engine.gate.set()
    await asyncio.gather(bulk, urgent)
    [device] = queue.snapshot()["devices"]
    assert (device["rows"], device["express"]["rows"]) == (1, 1)


async def test_the_queue_is_busy_while_it_works(at_bulk, submit, engine, express):
    queue, bulk = await at_bulk()
    shut(express)
    [urgent] = await submit(queue, 1, priority=Priority.BYPASS)
    await until(express.entered.is_set)
    engine.gate.set()
    await bulk
    assert queue.busy
    express.gate.set()
    await urgent
    assert not queue.busy


async def test_if_it_hangs_the_device_does_its_work(at_bulk, submit, engine, express, clock):
    queue, bulk = await at_bulk(engine_timeout=5.0)
    shut(express)
    [lost] = await submit(queue, 1, priority=Priority.BYPASS)
    await until(express.entered.is_set)
    engine.gate.set()  # the device itself does not hang
    await bulk
    await clock.advance(6)
    with pytest.raises(Exception, match="given up"):
        await lost
    assert queue.snapshot()["devices"][0]["express"]["status"] == "lost"
    assert queue.snapshot()["status"] == "degraded"
    assert queue.ready
    [behind] = await submit(queue, 2, priority=Priority.BYPASS)
    assert names([await behind]) == [2]
    assert 2 in engine.calls[-1]
    express.gate.set()  # what hung returns, and is tried out
    await until(lambda: queue.snapshot()["devices"][0]["express"]["status"] != "lost")


async def test_a_fault_of_the_card_is_a_fault_of_both(at_bulk, submit, engine, express):
    fatal = []
    queue, bulk = await at_bulk(on_fatal=fatal.append)

    def fail(_rows):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    express.before = fail
    [urgent] = await submit(queue, 1, priority=Priority.BYPASS)
    with pytest.raises(EngineUnavailable):
        await urgent
    assert fatal
    assert not queue.alive
    engine.gate.set()
    await asyncio.gather(bulk, return_exceptions=True)
