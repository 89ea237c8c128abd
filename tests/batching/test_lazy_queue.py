"""A model that is loaded when it is first spoken with: who waits for it, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kokoro_server.batching import BatchingOptions, BatchQueue
from kokoro_server.batching.entry import Deadline
from kokoro_server.batching.lazy_queue import LazyQueue
from kokoro_server.batching.model_slots import ModelSlot, ModelSlots
from kokoro_server.errors import EngineUnavailable, TooBusy
from tests.batching.doubles import EchoEngine, make_row, name_of, settle


class Load:
    """Loads as often as it is asked, and ends when the test says so."""

    def __init__(self, options: BatchingOptions | None = None) -> None:
        self.times = 0
        self.loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue = LazyQueue("german", options or BatchingOptions(), ModelSlots(1, 30.0), self._start)

    async def _start(self, _slot: ModelSlot) -> BatchQueue:
        self.times += 1
        await self.loaded
        queue = BatchQueue([EchoEngine()], BatchingOptions())
        await queue.start()
        return queue

    async def speak(self, name: int, ticket: Any = None) -> int:
        ticket = ticket or self.queue.ticket()
        async with self.queue.admission(ticket):
            pass
        return name_of((await self.queue.submit_only(make_row(name), "df_anna", ticket)).result)


@pytest.fixture
async def loads() -> Callable[..., Load]:
    return Load


async def test_the_first_requests_share_a_load_and_one_that_leaves_does_not_end_it(loads):
    load = loads()
    leaving, *waiting = [asyncio.create_task(load.speak(name)) for name in range(3)]
    await settle()
    leaving.cancel()
    await settle()
    assert load.queue.load_state == "loading"
    load.loaded.set_result(None)
    assert await asyncio.gather(*waiting) == [1, 2]
    assert load.times == 1
    await load.queue.stop()


async def test_a_load_that_fails_fails_those_that_wait_and_the_next_request_tries_again(loads):
    load = loads()
    waiting = [asyncio.create_task(load.speak(name)) for name in range(2)]
    await settle()
    load.loaded.set_exception(EngineUnavailable("damaged"))
    assert all(isinstance(each, EngineUnavailable) for each in await asyncio.gather(*waiting, return_exceptions=True))
    assert load.queue.load_state == "failed"
    load.loaded = asyncio.get_running_loop().create_future()
    load.loaded.set_result(None)
    assert await load.speak(7) == 7
    assert load.times == 2
    await load.queue.stop()


async def test_the_deadline_is_put_off_by_the_load(loads):
    load = loads()
    ticket, soon = load.queue.ticket(), load.queue.now() + 0.2
    ticket.first_deadline = Deadline(soon, soon)
    speaking = asyncio.create_task(load.speak(1, ticket))
    await asyncio.sleep(0.4)
    load.loaded.set_result(None)
    assert await speaking == 1
    await load.queue.stop()


async def test_only_so_many_wait(loads):
    load = loads(BatchingOptions(max_queue_size=1))
    waiting = asyncio.create_task(load.speak(1))
    await settle()
    with pytest.raises(TooBusy):
        await load.speak(2)
    load.loaded.set_result(None)
    assert await waiting == 1
    await load.queue.stop()


async def test_a_stop_while_it_loads_is_an_answer_and_nothing_loads_afterwards(loads):
    load = loads()
    waiting = [asyncio.create_task(load.speak(name)) for name in range(2)]
    await settle()
    await load.queue.stop()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [EngineUnavailable] * 2
    with pytest.raises(EngineUnavailable):
        await load.speak(3)
    assert load.times == 1
