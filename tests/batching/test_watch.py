"""Forward passes beside other programs: one that waits for a processor does not hang."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from kokoro_server.batching.devices.thread import DeviceThread
from kokoro_server.errors import Expired
from tests.batching.doubles import names, shut, until


@pytest.fixture
def computing(monkeypatch, clock):
    """Has each device's thread compute for a share of the time."""

    def of(share: float | None) -> None:
        monkeypatch.setattr(DeviceThread, "computing", lambda _: None if share is None else share * clock.now())

    return of


async def one_at_work(start, submit, engine, clock, device="cpu"):
    engine.device = device
    queue = await start(engine_timeout=60)
    shut(engine)
    tasks = await submit(queue, 0)
    await clock.advance(0.01)
    await until(engine.entered.is_set)
    return queue, tasks


async def test_a_pass_that_waits_for_a_processor_is_not_given_up(start, submit, engine, clock, computing):
    computing(0.1)
    queue, tasks = await one_at_work(start, submit, engine, clock)
    tasks += await submit(queue, 1)
    await clock.advance(500)
    assert not any(task.done() for task in tasks)
    assert queue.ready
    engine.gate.set()
    assert names(await clock.keep_going(asyncio.gather(*tasks))) == [0, 1]


@pytest.mark.parametrize(
    ("device", "share", "seconds"),
    [
        ("cpu", 0.1, 600),  # it has computed for a minute
        ("cpu", 1.0, 60),
        ("cpu", 2.0, 60),
        ("cpu", 0.0, 60),
        ("cpu", 0.0005, 60),  # it looks now and then whether it may go on
        ("cpu", None, 60),
        ("cuda:0", 0.1, 60),  # its thread waits for the device
    ],
)
async def test_a_pass_that_hangs_is_given_up(start, submit, engine, clock, computing, device, share, seconds):
    computing(share)
    _, [hanging] = await one_at_work(start, submit, engine, clock, device)
    await clock.advance(seconds - 2)
    assert not hanging.done()
    await clock.advance(2)
    with pytest.raises(Expired, match="a forward pass takes longer than 60 s"):
        await hanging


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
async def test_what_a_thread_has_computed_can_be_seen_from_another_one():
    thread, go_on = DeviceThread(asyncio.get_running_loop(), "test"), threading.Event()
    await thread.call(lambda: None)

    def compute() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        go_on.wait()

    before = thread.computing()
    computed = thread.call(compute)
    assert before is not None
    await until(lambda: (thread.computing() or 0.0) >= before + 0.2)
    await asyncio.sleep(0.2)
    assert (thread.computing() or 0.0) < before + 0.3
    go_on.set()
    await computed
    thread.stop()
    await until(lambda: thread.computing() is None)
