"""The queue on real time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kokoro_server.batching import BatchQueue
from kokoro_server.errors import Expired
from tests.batching.doubles import EchoEngine, make_row, name_of


async def test_requests_from_many_tasks_share_batches():
    engine = EchoEngine(max_rows=8)
    queue = BatchQueue([engine])
    await queue.start()
    outcomes = await asyncio.gather(*(queue.submit(make_row(name), voice="af_heart") for name in range(16)))
    await queue.stop()
    assert [name_of(outcome.result) for outcome in outcomes] == list(range(16))
    assert [len(call) for call in engine.calls] == [8, 8]


async def test_a_lone_request_goes_by_itself():
    queue = BatchQueue([EchoEngine()])
    await queue.start()
    outcome = await queue.submit(make_row(3), voice="af_heart")
    await queue.stop()
    assert (name_of(outcome.result), outcome.batch_size, outcome.fire_reason) == (3, 1, "quiet")


async def test_a_deadline_comes_by_itself():
    queue = BatchQueue([EchoEngine()])
    await queue.start()
    queue.hold()
    with pytest.raises(Expired):
        await queue.submit(make_row(0), voice="af_heart", deadline=queue.now() + 0.01)
    await queue.stop()


async def test_the_engine_runs_on_one_thread_that_is_not_the_loops():
    engine = EchoEngine()
    threads = set()
    engine.before = lambda _rows: threads.add(threading.current_thread())
    queue = BatchQueue([engine])
    await queue.start()
    await asyncio.gather(*(queue.submit(make_row(name), voice="af_heart") for name in range(12)))
    await queue.stop()
    assert len(threads) == 1
    assert threading.current_thread() not in threads
