"""What an engine does for later batches while its device has none."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace

import pytest

from kokoro_server.batching.devices.idle_work import IDLE_SECONDS, PAUSE_SECONDS
from tests.batching.conftest import Start, Submitter
from tests.batching.doubles import PATIENCE, EchoEngine, FakeClock, settle, until


class BusyBee(EchoEngine):
    """Has `left` steps to do in the background; each waits for `allowed`."""

    def __init__(self, left: int, threads: int = 1) -> None:
        super().__init__()
        self.limits = replace(self.limits, max_in_flight=threads)
        self.left = left
        self.steps: list[int] = []  # the thread of each
        self.allowed = threading.Event()
        self.allowed.set()
        self.error: Exception | None = None

    def background_step(self) -> bool:
        self.steps.append(threading.get_ident())
        self.allowed.wait(PATIENCE)
        if self.error:
            raise self.error
        self.left -= self.left > 0
        return self.left > 0


async def stepped(clock: FakeClock, engine: BusyBee, steps: int) -> None:
    """Let time pass until it has made so many steps in all."""
    async with asyncio.timeout(PATIENCE):
        while len(engine.steps) < steps:
            await clock.advance(PAUSE_SECONDS)
            await asyncio.sleep(0.001)


async def rest(clock: FakeClock, seconds: float) -> None:
    """Let time pass at the pace of the device's thread."""
    for _ in range(round(seconds / PAUSE_SECONDS)):
        await clock.advance(PAUSE_SECONDS)
        await asyncio.sleep(0.002)


async def test_it_begins_on_every_thread_and_goes_on_until_nothing_is_left(start: Start, clock: FakeClock) -> None:
    engine = BusyBee(left=6, threads=2)
    await start(engines=[engine])
    await until(lambda: len(engine.steps) == 2)
    assert len(set(engine.steps)) == 2
    await stepped(clock, engine, 6)
    assert len(set(engine.steps[2:])) == 1
    await rest(clock, 5)
    assert len(engine.steps) == 6
    assert clock.armed == 0


async def test_it_waits_while_there_are_batches(start: Start, submit: Submitter, clock: FakeClock) -> None:
    engine = BusyBee(left=1000)
    queue = await start(engines=[engine])
    await until(lambda: len(engine.steps) == 1)
    for name in range(5):
        [task] = await submit(queue, name)
        await clock.keep_going(task)
        before = len(engine.steps)
        await rest(clock, IDLE_SECONDS - 3 * PAUSE_SECONDS)
        assert len(engine.steps) == before
    await stepped(clock, engine, len(engine.steps) + 3)


async def test_a_batch_waits_for_one_step_at_most(start: Start, submit: Submitter, clock: FakeClock) -> None:
    engine = BusyBee(left=1000)
    queue = await start(engines=[engine])
    await until(lambda: len(engine.steps) == 1)
    engine.allowed.clear()
    await stepped(clock, engine, 2)
    [task] = await submit(queue, 7)
    await rest(clock, 1)
    assert not task.done()
    engine.allowed.set()
    await clock.keep_going(task)
    assert engine.calls == [[7]]
    assert len(engine.steps) == 2


async def test_a_batch_may_leave_something_to_do(start: Start, submit: Submitter, clock: FakeClock) -> None:
    engine = BusyBee(left=1)
    queue = await start(engines=[engine])
    await rest(clock, 3)
    assert len(engine.steps) == 1
    engine.left = 2
    [task] = await submit(queue, 1)
    await clock.keep_going(task)
    await stepped(clock, engine, 3)


async def test_what_fails_is_given_up_and_batches_go_on(
    start: Start, submit: Submitter, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = BusyBee(left=1000)
    engine.error = RuntimeError("no")
    with caplog.at_level(logging.WARNING):
        queue = await start(engines=[engine])
        await rest(clock, 3)
    [task] = await submit(queue, 1)
    await clock.keep_going(task)
    await rest(clock, 3)
    assert len(engine.steps) == 1
    assert "work in the background failed" in caplog.text


async def test_an_engine_that_has_none_sets_no_timer(start: Start, submit: Submitter, clock: FakeClock) -> None:
    queue = await start()
    [task] = await submit(queue, 1)
    await clock.keep_going(task)
    await settle()
    assert clock.armed == 0
