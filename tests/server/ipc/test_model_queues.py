"""Models of MODELS_PATH over a real socket: an API worker's queues, and the engine process that loads the models."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kokoro_server.assets.models import folder
from kokoro_server.assets.models.folder import ModelFolder, ModelShelf
from kokoro_server.batching import BatchQueue, Priority
from kokoro_server.batching.entry import Submission
from kokoro_server.batching.lazy_queue import LazyQueue
from kokoro_server.batching.model_slots import ModelSlot, ModelSlots
from kokoro_server.callers.limits import CallerCounts
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.errors import EngineUnavailable
from kokoro_server.server.ipc.audio_buffers import AudioBuffers
from kokoro_server.server.ipc.client import RemoteQueue
from kokoro_server.server.ipc.model_client import RemoteModelQueue, RemoteModels
from kokoro_server.server.ipc.server import IpcServer
from tests.assets.test_models import described
from tests.batching.doubles import EchoEngine, make_row, name_of
from tests.server.ipc.test_queue import OPTIONS, until


@dataclass
class Loads:
    """A model in the engine process, which is loaded when the test lets it."""

    identity: str
    slots: ModelSlots

    def __post_init__(self) -> None:
        self.times = 0
        self.engine = EchoEngine()
        self.allowed = asyncio.Event()
        self.error: Exception | None = None
        self.queue = LazyQueue("german", OPTIONS, self.slots, self._start)

    async def _start(self, _slot: ModelSlot) -> BatchQueue:
        self.times += 1
        await self.allowed.wait()
        if self.error:
            raise self.error
        queue = BatchQueue([self.engine], OPTIONS)
        await queue.start()
        return queue


class World:
    """An engine process with one model beside its own, and API workers."""

    def __init__(self, path: Path, model: ModelFolder) -> None:
        self.path = path / "engine"
        self.model = model
        self.workers: list[RemoteQueue] = []

    async def start_engine(self, **changed: str) -> None:
        self.own_engine = EchoEngine()
        self.own = BatchQueue([self.own_engine], OPTIONS)
        await self.own.start()
        self.loads = Loads(changed.get("identity", self.model.identity), ModelSlots(1, 1.0))
        models = {changed.get("name", self.model.name): self.loads}
        facts = ModelFacts(Path("voices"), "fp32", "path")
        buffers = AudioBuffers(2**22)
        self.server = IpcServer(self.own, CallerCounts(0, 0), facts, buffers=buffers, models=models)
        self.server.start(self.path)

    async def stop_engine(self) -> None:
        self.path.unlink()
        for connection in list(self.server.connections):
            connection.abort()
        await self.loads.queue.stop()
        await self.own.stop()
        await self.server.stop()

    async def worker(self) -> tuple[RemoteQueue, RemoteModelQueue]:
        remote = RemoteQueue(self.path, OPTIONS)
        models = RemoteModels(remote, ModelShelf({self.model.name: self.model}))
        self.workers.append(remote)
        await remote.start()
        queue = models.queues[self.model.name]
        assert isinstance(queue, RemoteModelQueue)
        return remote, queue


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, folder.read(described(tmp_path / "models")))
    await world.start_engine()
    yield world
    for worker in world.workers:
        await worker.stop()
    await world.stop_engine()


async def speak(queue: RemoteModelQueue, name: int) -> int:
    ticket = queue.ticket()
    async with queue.admission(ticket):
        pass
    return name_of((await queue.submit_only(make_row(name), "german/df_anna", ticket)).result)


async def test_texts_of_two_workers_wait_for_one_load_and_each_model_speaks_its_own(world: World) -> None:
    (own, one), (_, two) = await world.worker(), await world.worker()
    speaking = [asyncio.create_task(speak((one, two)[number % 2], number)) for number in range(4)]
    await until(lambda: world.loads.times)
    assert name_of((await own.submit(make_row(9), voice="af_heart")).result) == 9  # meanwhile
    world.loads.allowed.set()
    assert await asyncio.gather(*speaking) == [0, 1, 2, 3]
    assert world.loads.times == 1
    assert [sum(map(len, engine.calls)) for engine in (world.own_engine, world.loads.engine)] == [1, 4]
    assert one.model_state()["state"] == "loaded"  # its status came before the answer
    assert list(one.device_states().values()) == ["healthy"]


async def test_a_deadline_is_put_off_by_the_load(world: World) -> None:
    _, queue = await world.worker()
    ticket, before = queue.ticket(), queue.now()
    ticket.first_deadline = ticket.first_deadline.at_most(before + 0.2)
    admitted = asyncio.create_task(_admitted(queue, ticket))
    await asyncio.sleep(0.5)
    world.loads.allowed.set()
    await admitted
    assert ticket.first_deadline.start > before + 0.6


async def _admitted(queue: RemoteModelQueue, ticket: object) -> None:
    async with queue.admission(ticket):  # type: ignore[arg-type]
        pass


async def test_clients_that_leave_while_it_loads_leave_nothing_behind(world: World) -> None:
    remote, queue = await world.worker()
    leaving = asyncio.create_task(speak(queue, 1))
    await until(lambda: world.loads.times)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    await remote.stop()
    await until(lambda: not world.server.connections)
    world.loads.allowed.set()
    await until(lambda: world.loads.queue.loaded is not None)
    loaded = world.loads.queue.loaded
    assert loaded is not None
    assert loaded.snapshot()["queue_status"]["preparing"] == 0


async def test_a_load_that_fails_is_the_answer_and_the_next_text_tries_again(world: World) -> None:
    _, queue = await world.worker()
    world.loads.error = EngineUnavailable("damaged", retry_after=30.0)
    world.loads.allowed.set()
    with pytest.raises(EngineUnavailable, match="damaged"):
        await speak(queue, 1)
    await until(lambda: queue.model_state()["state"] == "failed")
    world.loads.error = None
    assert await speak(queue, 2) == 2


async def test_texts_wait_for_the_next_engine_process_which_loads_the_model_again(world: World) -> None:
    _, queue = await world.worker()
    world.loads.allowed.set()
    assert await speak(queue, 1) == 1
    await world.stop_engine()
    await until(lambda: queue.model_state()["state"] == "unloaded")
    waiting = asyncio.create_task(speak(queue, 2))
    await world.start_engine()
    await until(lambda: world.loads.times)
    assert not waiting.done()
    world.loads.allowed.set()
    assert await waiting == 2


async def test_a_row_whose_text_another_engine_process_let_in_is_spoken(world: World) -> None:
    _, queue = await world.worker()
    world.loads.allowed.set()
    assert await speak(queue, 1) == 1
    loaded = world.loads.queue.loaded
    assert loaded is not None
    loaded.hold()
    ticket = queue.ticket()
    row = Submission(make_row(2), "german/df_anna", Priority.NORMAL, ticket.first_deadline.start, "")
    answer = queue.enqueue(row)
    await until(lambda: loaded.busy)
    await world.stop_engine()
    await world.start_engine()
    world.loads.allowed.set()
    assert name_of((await answer).result) == 2


@pytest.mark.parametrize("changed", [{"identity": "another"}, {"name": "other"}])
async def test_a_folder_that_the_next_engine_process_reads_otherwise_is_not_used(
    world: World, changed: dict[str, str]
) -> None:
    remote, queue = await world.worker()
    assert queue.condition.current is None
    await world.stop_engine()
    await world.start_engine(**changed)
    world.loads.allowed.set()
    await until(lambda: remote.ready and queue.condition.current)
    with pytest.raises(EngineUnavailable, match="was changed while the server ran; restart the server"):
        await speak(queue, 1)
    assert name_of((await remote.submit(make_row(9), voice="af_heart")).result) == 9
    await world.stop_engine()
    await world.start_engine()
    world.loads.allowed.set()
    await until(lambda: queue.condition.current is None)
    assert await speak(queue, 2) == 2


async def test_the_engine_process_refuses_a_model_that_it_does_not_have(world: World) -> None:
    remote, _ = await world.worker()
    with pytest.raises(EngineUnavailable, match="does not have the model nobody"):
        async with remote.admitted(remote.ticket(), "nobody"):
            pytest.fail("was admitted")
    row = Submission(make_row(1), "nobody/df_anna", Priority.NORMAL, remote.now() + 5, "")
    with pytest.raises(EngineUnavailable, match="does not have the model nobody"):
        await remote.enqueue(row, "nobody")


def test_a_changed_folder_has_another_identity(tmp_path: Path) -> None:
    path = described(tmp_path / "models")
    first = folder.read(path)
    assert folder.read(path).identity == first.identity
    (path / "model.toml").write_text((path / "model.toml").read_text() + "\n# a remark\n")
    assert folder.read(path).identity == first.identity
    first.weights.write_bytes(first.weights.read_bytes() + b"x")
    second = folder.read(path)
    assert second.identity != first.identity
    config = path / "config.json"
    config.write_text(config.read_text().replace('"n_token": 200', '"n_token": 201'))
    assert folder.read(path).identity not in (first.identity, second.identity)
