"""The model leaves memory when nothing has been spoken for some time, and comes back for the next text."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from kokoro_server.batching import BatchingOptions, BatchQueue, idle_unloader
from kokoro_server.engine.protocol import Gap
from kokoro_server.errors import EngineUnavailable, Expired, TooBusy
from kokoro_server.observability.metrics import Metrics
from tests.batching.conftest import Submitter
from tests.batching.doubles import PATIENCE, EchoEngine, FakeClock, make_engines, names, settle, shut, until
from tests.batching.test_idle_work import BusyBee

IDLE = 60.0  # seconds
Make = Callable[[], list[Any]]


class EchoModel:
    """Loads and unloads at once unless `gate` is shut; `engines` are those it has."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.engines: Sequence[Any] = make()
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[str] = []
        self.error: Exception | None = None

    def unload(self) -> None:
        self.calls.append("unload")
        assert self.gate.wait(PATIENCE)
        self.engines = ()

    def load(self) -> Sequence[Any]:
        self.calls.append("load")
        assert self.gate.wait(PATIENCE)
        if self.error:
            raise self.error
        self.engines = self._make()
        return self.engines


class World:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.metrics = Metrics()
        self.fatal: list[str] = []

    async def start(self, make: Make = lambda: make_engines(1), **options: Any) -> None:
        self.model = EchoModel(make)
        self.queue = BatchQueue(
            self.model.engines,
            BatchingOptions(idle_unload=IDLE, **options),
            model=self.model,
            clock=self.clock,
            metrics=self.metrics,
            on_fatal=self.fatal.append,
        )
        await self.queue.start()

    @property
    def state(self) -> str:
        return str(self.queue.model_state()["state"])

    async def reach(self, state: str) -> None:
        await until(lambda: self.state == state)

    async def unload(self) -> None:
        await self.clock.advance(IDLE)
        await self.reach("unloaded")

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
async def world(clock: FakeClock) -> AsyncIterator[World]:
    world = World(clock)
    yield world
    world.model.gate.set()
    await world.queue.stop()


async def test_it_is_unloaded_after_so_long_without_work_and_loaded_for_the_next_text(
    world: World, submit: Submitter
) -> None:
    await world.start()
    await world.clock.advance(IDLE / 2)
    [task] = await submit(world.queue, 1)
    await world.clock.keep_going(task)
    await world.clock.advance(IDLE - 1)
    assert world.model.calls == []
    await world.clock.advance(1)
    await world.reach("unloaded")
    assert world.metric("tts_model_loaded") == 0
    assert world.queue.ready
    assert world.queue.device_states() == {"cuda:0": "healthy"}
    tasks = await submit(world.queue, 2, 3)
    assert names(await world.clock.keep_going(asyncio.gather(*tasks))) == [2, 3]
    assert world.model.calls == ["unload", "load"]
    facts = world.queue.snapshot()["model"]
    assert facts["state"] == "loaded"
    assert (facts["unloads"], facts["loads"], facts["failed_loads"], facts["unload_after_s"]) == (1, 1, 0, IDLE)
    assert facts["last_load"] >= facts["last_unload"]
    assert facts["last_load_s"] >= 0
    assert world.metric("tts_model_loaded") == 1
    assert world.metric("tts_model_changes_total", change="load") == 1
    assert world.metric("tts_model_load_seconds_count") == 1
    assert world.queue.snapshot()["performance"]["total_requests"] == 3
    assert world.queue.snapshot()["devices"][0]["rows"] == 3
    await world.unload()


async def test_without_the_option_it_stays(start: Any, clock: FakeClock) -> None:
    queue = await start()
    await clock.advance(1e7)
    assert queue.model_state() == {"state": "loaded"}


async def test_nothing_keeps_the_engines_alive(world: World, submit: Submitter) -> None:
    await world.start(lambda: [BusyBee(left=3, threads=2), BusyBee(left=3)])
    tasks = await submit(world.queue, *range(8))
    await world.clock.keep_going(asyncio.gather(*tasks))
    engines = [weakref.ref(engine) for engine in world.model.engines]
    del tasks
    submit.tasks.clear()
    await world.unload()
    gc.collect()
    assert [engine() for engine in engines] == [None, None]


async def test_work_in_the_background_does_not_keep_it_and_ends_before_it(world: World, submit: Submitter) -> None:
    await world.start(lambda: [BusyBee(left=10**6)])
    [bee] = world.model.engines
    await until(lambda: len(bee.steps) == 1)
    bee.allowed.clear()
    while len(bee.steps) < 2:
        await world.clock.advance(0.02)
        await asyncio.sleep(0.001)
    await world.clock.advance(IDLE)
    assert world.state == "unloading"
    assert world.model.calls == []  # not while a thread is in a call
    bee.allowed.set()
    await world.reach("unloaded")
    [task] = await submit(world.queue, 1)
    await world.clock.keep_going(task)
    [bee] = world.model.engines
    assert bee.steps  # the new one has begun its own


async def test_many_texts_load_it_once_and_wait_for_it_however_short_their_time(
    world: World, submit: Submitter
) -> None:
    await world.start(queue_timeout=2.0, max_queue_size=3)
    await world.unload()
    world.model.gate.clear()
    with world.queue.admit():  # being read: it is loaded meanwhile
        await until(lambda: world.model.calls[-1] == "load")
    tasks = await submit(world.queue, 1, 2, 3)
    with pytest.raises(TooBusy), world.queue.admit():
        pass
    await world.clock.advance(100)
    assert world.state == "loading"
    assert not any(task.done() for task in tasks)
    world.model.gate.set()
    assert names(await world.clock.keep_going(asyncio.gather(*tasks))) == [1, 2, 3]
    assert world.model.calls == ["unload", "load"]
    assert world.queue.snapshot()["performance"]["expired"] == 0


async def test_a_deadline_holds_again_once_it_is_loaded(world: World, submit: Submitter) -> None:
    await world.start()
    await world.unload()
    world.model.gate.clear()
    world.queue.hold()
    [task] = await submit(world.queue, 1, deadline=world.queue.now() + 2)
    await world.clock.advance(30)
    world.model.gate.set()
    await world.reach("loaded")
    await world.clock.advance(1.9)
    assert not task.done()
    await world.clock.advance(0.2)
    with pytest.raises(Expired):
        await task


async def test_a_text_that_comes_too_late_is_told_so_at_once(world: World, submit: Submitter) -> None:
    await world.start()
    await world.unload()
    world.model.gate.clear()
    with world.queue.admit():  # its time is over before it has been read
        await world.clock.advance(5)
    [task] = await submit(world.queue, 1, deadline=world.queue.now())
    await settle()
    assert task.done()
    with pytest.raises(Expired):
        await task


async def test_a_text_that_comes_while_it_is_unloaded_is_spoken(world: World, submit: Submitter) -> None:
    await world.start()
    world.model.gate.clear()
    await world.clock.advance(IDLE)
    await until(lambda: world.model.calls == ["unload"])
    [task] = await submit(world.queue, 1)
    assert world.state == "unloading"
    world.model.gate.set()
    assert names([await world.clock.keep_going(task)]) == [1]
    assert world.model.calls == ["unload", "load"]


async def test_a_text_that_leaves_does_not_stop_the_load(world: World, submit: Submitter) -> None:
    await world.start()
    await world.unload()
    world.model.gate.clear()
    [task] = await submit(world.queue, 1)
    task.cancel()
    await settle()
    world.model.gate.set()
    await world.reach("loaded")
    await world.unload()


async def test_a_load_that_fails_is_tried_again_by_the_next_text(world: World, submit: Submitter) -> None:
    await world.start()
    await world.unload()
    world.model.error = FileNotFoundError("/somewhere/weights.safetensors")
    for attempt in (1, 2):
        [task] = await submit(world.queue, attempt)
        with pytest.raises(EngineUnavailable) as refused:
            await world.clock.keep_going(task)
        assert "/health" in refused.value.message
        assert "/somewhere" not in refused.value.message
        assert refused.value.retry_after
        await world.reach("unloaded")
        assert world.queue.model_state()["failed_loads"] == attempt
    assert world.queue.ready
    assert world.fatal == []
    assert world.model.calls == ["unload", *["load", "unload"] * 2]  # what it had loaded by then is freed
    world.model.error = None
    [task] = await submit(world.queue, 3)
    assert names([await world.clock.keep_going(task)]) == [3]


async def test_a_poisoned_device_ends_the_process(world: World, submit: Submitter) -> None:
    await world.start()
    await world.unload()
    world.model.error = RuntimeError("CUDA error: an illegal memory access was encountered")
    [task] = await submit(world.queue, 1)
    await until(lambda: bool(world.fatal))
    assert not world.queue.alive
    with pytest.raises(EngineUnavailable):
        await task


async def test_a_load_that_hangs_ends_the_process(world: World, submit: Submitter) -> None:
    await world.start()
    await world.unload()
    world.model.gate.clear()
    await submit(world.queue, 1)
    await world.clock.advance(idle_unloader.TIMEOUT)
    assert "loading" in world.fatal[0]


@pytest.mark.parametrize("call", ["unload", "load"])
async def test_it_can_be_stopped_meanwhile(world: World, submit: Submitter, call: str) -> None:
    await world.start()
    if call == "load":
        await world.unload()
    world.model.gate.clear()
    if call == "unload":
        await world.clock.advance(IDLE)
    [task] = await submit(world.queue, 1)
    await until(lambda: world.model.calls[-1:] == [call])
    await world.queue.stop()
    with pytest.raises(EngineUnavailable):
        await task
    assert world.clock.armed == 0


async def test_it_can_be_stopped_while_unloaded(world: World) -> None:
    await world.start()
    await world.unload()
    await world.queue.stop()
    assert world.clock.armed == 0


async def test_what_has_been_counted_and_learned_survives(world: World, submit: Submitter) -> None:
    class Counting(EchoEngine):
        device = "cuda:0"

        def resources(self) -> dict[str, float]:
            return {"graphs": 5.0, "graph_captures": 7.0}

        def busy_seconds(self) -> float:
            return 0.5

        def take_gaps(self) -> list[Gap]:
            return []

    frames = iter((1000, 500))
    await world.start(lambda: [Counting(max_padded_frames=next(frames))])
    [device] = world.queue._devices
    [task] = await submit(world.queue, 1)
    await world.clock.keep_going(task)
    await world.unload()
    assert device.busy_seconds() == 0.5
    assert device.resources() == {"graphs": 0.0, "graph_captures": 7.0}
    assert world.metric("tts_device_graph_captures_total", device="cuda:0") == 7
    [task] = await submit(world.queue, 2)
    await world.clock.keep_going(task)
    assert device.busy_seconds() == 1.0
    assert device.resources() == {"graphs": 5.0, "graph_captures": 14.0}
    assert device.policy.max_padded_frames == 500  # less memory is free than there was


async def test_a_device_that_hangs_keeps_it(world: World, submit: Submitter) -> None:
    await world.start(lambda: make_engines(2), engine_timeout=5.0)
    engine = world.model.engines[0]
    shut(engine)
    tasks = await submit(world.queue, 1)
    await world.clock.advance(1)
    await until(engine.entered.is_set)
    await world.clock.advance(100)
    assert "lost" in world.queue.device_states().values()
    await world.clock.advance(10 * IDLE)
    assert world.state == "loaded"
    engine.gate.set()
    await until(lambda: "lost" not in world.queue.device_states().values())
    await asyncio.gather(*tasks, return_exceptions=True)
    await world.unload()
