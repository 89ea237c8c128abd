from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from kokoro_server.batching import BatchingOptions, BatchQueue, Outcome, Priority
from tests.batching.doubles import EchoEngine, FakeClock, make_engines, make_row

Start = Callable[..., Awaitable[BatchQueue]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine() -> EchoEngine:
    return EchoEngine()


@pytest.fixture
def pair() -> list[EchoEngine]:
    return make_engines(2)


@pytest.fixture
async def start(engine: EchoEngine, clock: FakeClock) -> AsyncIterator[Start]:
    """Starts a queue on the engine, or the `engines` given, and the clock of the test; stopped at its end."""
    used = [engine]
    async with AsyncExitStack() as stack:

        async def start_queue(
            metrics: Any = None,
            on_fatal: Any = lambda _: None,
            engines: Any = None,
            max_padded_frames: int | None = None,
            **options: Any,
        ) -> BatchQueue:
            if max_padded_frames:
                engine.limits = replace(engine.limits, max_padded_frames=max_padded_frames)
            used.extend(engines or [])
            queue = BatchQueue(
                engines or [engine], BatchingOptions(**options), clock=clock, metrics=metrics, on_fatal=on_fatal
            )
            await queue.start()
            stack.push_async_callback(queue.stop)
            return queue

        yield start_queue
        for each in used:
            each.gate.set()


class Submitter:
    """Submits rows by name, each in a task of its own."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Outcome]] = []

    async def __call__(
        self,
        queue: BatchQueue,
        *names: int,
        tokens: int = 10,
        voice: str = "af_heart",
        priority: Priority = Priority.NORMAL,
        deadline: float | None = None,
    ) -> list[asyncio.Task[Outcome]]:
        tasks = [
            asyncio.create_task(queue.submit(make_row(name, tokens), voice=voice, priority=priority, deadline=deadline))
            for name in names
        ]
        self.tasks.extend(tasks)
        await asyncio.sleep(0)
        return tasks

    async def held(self, queue: BatchQueue, *names: int, tokens: int = 10) -> list[Any]:
        """The outcomes, or errors, of entries that are all there when the device comes free."""
        queue.hold()
        tasks = await self(queue, *names, tokens=tokens)
        queue.release()
        return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def submit() -> AsyncIterator[Submitter]:
    submitter = Submitter()
    yield submitter
    for task in submitter.tasks:
        task.cancel()
    await asyncio.gather(*submitter.tasks, return_exceptions=True)
