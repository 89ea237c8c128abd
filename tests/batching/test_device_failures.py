"""Several devices behind one queue, one of which fails, hangs, or is still busy when the queue stops."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.engine.protocol import EngineLimits
from kokoro_server.engine.rows import warmup_row
from kokoro_server.errors import EngineError, EngineUnavailable, Expired
from tests.batching.doubles import OutOfMemoryError, name_of, names, settle, shut, until


async def test_memory_that_runs_out_on_one_device_is_learned_for_that_one(start, submit, pair):
    queue = await start(engines=pair)

    def before(rows):
        if len(rows) > 2:
            raise OutOfMemoryError("CUDA out of memory")

    pair[0].before = before
    assert names(await submit.held(queue, *range(32))) == list(range(32))
    small, large = queue.snapshot()["devices"]
    assert small["learned_max_padded_frames"] < small["max_padded_frames"]
    assert large["learned_max_padded_frames"] == large["max_padded_frames"]
    assert (small["status"], large["status"], queue.snapshot()["status"]) == ("degraded", "healthy", "degraded")
    assert [len(call) for call in pair[0].calls].count(4) == 1
    assert 4 in map(len, pair[1].calls)


async def test_a_bad_row_costs_itself_only(start, submit, pair):
    queue = await start(engines=pair)

    def before(rows):
        if any(row.seed == 5 for row in rows):
            raise ValueError("five")

    for engine in pair:
        engine.before = before
    outcomes = await submit.held(queue, *range(8))
    assert isinstance(outcomes.pop(5), EngineError)
    assert names(outcomes) == [0, 1, 2, 3, 4, 6, 7]


async def hang(queue, submit, clock, engine) -> None:
    """Have the first device hang in a batch until it is given up."""
    shut(engine)
    [hanging] = await submit(queue, 0)
    await clock.advance(0.01)
    await until(engine.entered.is_set)
    await clock.advance(60)
    with pytest.raises(Expired, match="cuda:0 is given up"):
        await hanging


async def test_a_device_that_hangs_is_given_up_and_the_other_goes_on(start, submit, clock, pair):
    reasons = []
    queue = await start(engines=pair, engine_timeout=60, on_fatal=reasons.append)
    await hang(queue, submit, clock, pair[0])
    assert (queue.alive, queue.ready, queue.snapshot()["status"], reasons) == (True, True, "degraded", [])
    assert queue.device_states() == {"cuda:0": "lost", "cuda:1": "healthy"}
    assert "longer than 60 s" in queue.snapshot()["devices"][0]["error"]
    assert names(await submit.held(queue, *range(1, 10))) == list(range(1, 10))
    assert pair[0].calls == [[0]]


async def test_a_device_whose_thread_returns_is_taken_back_after_a_check(start, submit, clock, pair, caplog):
    queue = await start(engines=pair, engine_timeout=60)
    await hang(queue, submit, clock, pair[0])
    assert queue.device_states()["cuda:0"] == "lost"
    pair[0].gate.set()
    await until(lambda: queue.device_states()["cuda:0"] != "lost")
    assert len(pair[0].calls) == 2  # the one that hung, and the check
    assert "device works again device=cuda:0" in caplog.text
    assert names(await submit.held(queue, *range(1, 10))) == list(range(1, 10))
    assert len(pair[0].calls) > 2


async def test_a_device_that_fails_its_check_stays_lost(start, submit, clock, pair):
    queue = await start(engines=pair, engine_timeout=60)
    await hang(queue, submit, clock, pair[0])

    def before(_rows):
        raise RuntimeError("still broken")

    pair[0].before = before
    pair[0].gate.set()
    assert names(await submit.held(queue, *range(1, 10))) == list(range(1, 10))
    assert queue.device_states() == {"cuda:0": "lost", "cuda:1": "healthy"}


async def test_a_device_must_pass_the_check_on_each_of_its_threads(start, submit, clock, pair):
    pair[0].limits = EngineLimits(510, 4, 100_000, max_in_flight=2)
    queue = await start(engines=pair, engine_timeout=60)
    await hang(queue, submit, clock, pair[0])
    failures = iter([RuntimeError("this thread is still broken")])

    def before(rows):
        if rows[0].tokens == warmup_row().tokens:  # a check, not the call that hung
            for error in failures:
                raise error

    pair[0].before = before
    await until(lambda: len(pair[0].calls) == 2)  # the one that hangs, and the check of the other thread
    calls = pair[0].calls
    pair[0].gate.set()
    await until(lambda: len(calls) == 3)
    assert names(await submit.held(queue, *range(1, 10))) == list(range(1, 10))
    assert queue.device_states()["cuda:0"] == "lost"


async def test_when_the_last_device_hangs_the_process_must_end(start, submit, clock, pair):
    reasons = []
    queue = await start(engines=pair, engine_timeout=20, on_fatal=reasons.append)
    shut(*pair)
    tasks = await submit(queue, *range(8))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    await clock.advance(10)
    tasks += await submit(queue, 8)
    await clock.advance(10)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, Expired) for outcome in outcomes[:8])
    assert isinstance(outcomes[8], EngineUnavailable)
    assert (queue.alive, queue.ready) == (False, False)
    assert reasons == ["a forward pass takes longer than 20 s"]


async def test_a_device_whose_thread_dies_costs_its_batch_only(start, submit, pair):
    queue = await start(engines=pair)
    shut(*pair)

    def before(_rows):
        raise SystemExit(1)

    pair[0].before = before
    tasks = await submit(queue, *range(8))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    queue.hold()
    tasks += await submit(queue, 8, 9)
    pair[0].gate.set()
    await until(lambda: any(task.done() for task in tasks))
    pair[0].before = lambda _rows: None
    pair[1].gate.set()
    queue.release()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [name for name, outcome in enumerate(outcomes) if isinstance(outcome, EngineUnavailable)]
    assert failed == sorted(pair[0].calls[0])
    assert (queue.ready, queue.device_states()) == (True, {"cuda:0": "degraded", "cuda:1": "healthy"})


async def test_a_device_that_dies_again_and_again_is_given_up(start, submit, pair):
    queue = await start(engines=pair)

    def before(_rows):
        raise SystemExit(1)

    pair[0].before = before
    for name in range(12):
        await submit.held(queue, name)
    assert len(pair[0].calls) == 3
    assert len(pair[1].calls) == 9
    assert queue.device_states() == {"cuda:0": "lost", "cuda:1": "healthy"}
    assert (queue.alive, queue.ready) == (True, True)


async def test_a_poisoned_device_ends_the_process_once_the_others_are_done(start, submit, pair):
    reasons = []
    queue = await start(engines=pair, on_fatal=reasons.append)
    shut(*pair)

    def before(_rows):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    pair[0].before = before
    tasks = await submit(queue, *range(10))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    pair[0].gate.set()
    await until(lambda: bool(reasons))
    assert len(reasons) == 1
    assert "cuda:0: RuntimeError: CUDA error: an illegal memory access" in reasons[0]
    assert (queue.alive, queue.ready, queue.snapshot()["status"]) == (False, False, "unhealthy")
    stopping = asyncio.create_task(queue.stop())
    await settle()
    assert not stopping.done()
    pair[1].gate.set()
    await stopping
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    good = sorted(pair[1].calls[0])
    assert [name_of(outcomes[name].result) for name in good] == good
    rest = [outcome for name, outcome in enumerate(outcomes) if name not in good]
    assert len(rest) == 6
    assert all(isinstance(outcome, EngineUnavailable) and outcome.retry_after for outcome in rest)


async def test_a_fault_that_reaches_every_device_is_reported_once(start, submit, pair):
    reasons = []
    queue = await start(engines=pair, on_fatal=reasons.append)

    def before(_rows):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    for engine in pair:
        engine.before = before
    outcomes = await submit.held(queue, *range(8))
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes)
    await until(lambda: queue.device_states() == {"cuda:0": "lost", "cuda:1": "lost"})
    assert len(reasons) == 1


async def test_stop_waits_for_what_is_on_the_devices(start, submit, pair):
    queue = await start(engines=pair)
    shut(*pair)
    tasks = await submit(queue, *range(10))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    stopping = asyncio.create_task(queue.stop())
    await settle()
    assert [task.done() for task in tasks] == [False] * 8 + [True] * 2
    pair[1].gate.set()
    await until(lambda: any(task.done() for task in tasks[:8]))
    assert not stopping.done()
    pair[0].gate.set()
    await stopping
    assert names(await asyncio.gather(*tasks[:8])) == list(range(8))


async def test_stop_gives_up_only_the_device_that_takes_too_long(start, submit, clock, pair):
    queue = await start(engines=pair)
    shut(*pair)
    tasks = await submit(queue, *range(8))
    await until(lambda: all(engine.entered.is_set() for engine in pair))
    stopping = asyncio.create_task(queue.stop())
    await settle()
    pair[1].gate.set()
    await until(lambda: any(task.done() for task in tasks))
    await clock.advance(5)
    await stopping
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    good = sorted(pair[1].calls[0])
    assert [name_of(outcomes[name].result) for name in good] == good
    assert sum(isinstance(outcome, EngineUnavailable) for outcome in outcomes) == 4
