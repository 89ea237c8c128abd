"""Few models are in memory at once: another one takes the slot of the one that has been idle longest."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import BatchingOptions, BatchQueue
from kokoro_server.batching.lazy_queue import LazyQueue
from kokoro_server.batching.model_slots import ModelSlot, ModelSlots
from kokoro_server.errors import EngineUnavailable, TooBusy
from tests.batching.doubles import EchoEngine, make_engines, make_row, name_of, until
from tests.batching.test_idle_unloader import EchoModel

OPTIONS = BatchingOptions()


class Shelf:
    """Models that can be loaded again and again; `most` of them at once."""

    def __init__(self, names: str, most: int, patience: float = 30.0) -> None:
        self.slots = ModelSlots(most, patience)
        self.models = dict[str, EchoModel]()
        self.queues = {name: LazyQueue(name, OPTIONS, self.slots, self._starter(name)) for name in names}
        self.fails = set[str]()

    def _starter(self, name: str):  # type: ignore[no-untyped-def]
        async def start(slot: ModelSlot) -> BatchQueue:
            if name in self.fails:
                raise EngineUnavailable("damaged")
            model = self.models[name] = EchoModel(lambda: make_engines(1))
            queue = BatchQueue(model.engines, OPTIONS, model=model, slot=slot)  # type: ignore[arg-type]
            await queue.start()
            return queue

        return start

    async def speak(self, name: str) -> None:
        queue = self.queues[name]
        ticket = queue.ticket()
        async with queue.admission(ticket):
            pass
        assert name_of((await queue.submit_only(make_row(1), "df_anna", ticket)).result) == 1

    @property
    def loaded(self) -> str:
        return "".join(name for name, queue in self.queues.items() if queue.load_state == "loaded")

    def engine(self, name: str) -> EchoEngine:
        engine: EchoEngine = self.models[name].engines[0]
        return engine

    async def stop(self) -> None:
        for queue in self.queues.values():
            await queue.stop()


async def test_the_one_that_has_been_idle_longest_leaves() -> None:
    shelf = Shelf("abc", 2)
    for name in "aba":
        await shelf.speak(name)
    assert shelf.loaded == "ab"
    await shelf.speak("c")
    assert shelf.loaded == "ac"
    await shelf.speak("b")
    assert shelf.loaded == "bc"
    assert shelf.models["b"].calls == ["unload", "load"]
    await shelf.stop()


async def test_one_that_speaks_stays_and_the_other_waits_for_it() -> None:
    shelf = Shelf("ab", 1)
    await shelf.speak("a")
    shelf.engine("a").gate.clear()
    shelf.engine("a").entered.clear()
    first = asyncio.create_task(shelf.speak("a"))
    await until(shelf.engine("a").entered.is_set)
    second = asyncio.create_task(shelf.speak("b"))
    await asyncio.sleep(0.2)
    assert (shelf.loaded, second.done()) == ("a", False)
    shelf.engine("a").gate.set()
    await asyncio.gather(first, second)
    assert shelf.loaded == "b"
    await shelf.stop()


async def test_who_waits_too_long_is_told_why_and_leaves_the_turn_to_the_next() -> None:
    shelf = Shelf("abc", 1, patience=0.2)
    await shelf.speak("a")
    engine = shelf.engine("a")
    engine.gate.clear()
    engine.entered.clear()
    speaking = asyncio.create_task(shelf.speak("a"))
    await until(engine.entered.is_set)
    for name in "bc":
        with pytest.raises(TooBusy, match="keeps 1 models in memory, and all of them are in use"):
            await shelf.speak(name)
        assert shelf.queues[name].load_state == "unloaded"
    engine.gate.set()
    await speaking
    await shelf.speak("c")
    await shelf.stop()


async def test_many_texts_for_more_models_than_fit_are_all_spoken() -> None:
    shelf = Shelf("abcde", 2)
    await asyncio.gather(*(shelf.speak(name) for _ in range(6) for name in "abcde"))
    assert len(shelf.loaded) <= 2
    assert len(shelf.slots.holders) == 2
    await shelf.stop()


async def test_one_that_cannot_be_loaded_keeps_no_slot() -> None:
    shelf = Shelf("ab", 1)
    shelf.fails.add("a")
    with pytest.raises(EngineUnavailable):
        await shelf.speak("a")
    await shelf.speak("b")
    shelf.models["b"].error = RuntimeError("no memory")
    shelf.fails.clear()
    await shelf.speak("a")
    with pytest.raises(EngineUnavailable, match="cannot be loaded again, see /health"):
        await shelf.speak("b")
    await shelf.speak("a")
    await shelf.stop()
