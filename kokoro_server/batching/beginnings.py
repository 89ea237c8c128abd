"""What an engine has of a row's audio before the rest is made, on its way past the queue."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

from kokoro_server.runtime.background import cancel

T = TypeVar("T")


class Beginnings(Generic[T]):
    """Where an engine puts the beginnings of a row, each time more. Make it on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._given: asyncio.Queue[T | None] = asyncio.Queue()

    def give(self, beginning: T | None) -> None:
        """From any thread. None: no more will follow."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._given.put_nowait, beginning)

    async def before(self, outcomes: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The outcomes, and before the first of them its beginnings."""
        async with aclosing(outcomes):
            first = asyncio.create_task(_next(outcomes))
            first.add_done_callback(lambda _: self.give(None))
            try:
                while (beginning := await self._given.get()) is not None:
                    yield beginning
                yield await first
            finally:
                await cancel(first)
            async for outcome in outcomes:
                yield outcome


async def _next(outcomes: AsyncGenerator[T, None]) -> T:
    return await anext(outcomes)
