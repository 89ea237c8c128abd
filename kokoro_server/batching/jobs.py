"""Long texts: many pieces, few of them in the queue at once, their audio in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing

from kokoro_server.batching.entry import Outcome
from kokoro_server.engine.protocol import Row

Rows = Iterable[Row] | AsyncIterable[Row]
Enqueue = Callable[[int, Row], asyncio.Future[Outcome]]
Pending = asyncio.Queue[asyncio.Future[Outcome] | None]  # None: no more will follow


async def in_order(rows: Rows, enqueue: Enqueue, permits: asyncio.Semaphore) -> AsyncGenerator[Outcome, None]:
    """The outcomes of `rows`, in order. `enqueue(index, row)` is called ahead, as far as there are `permits`.

    If a row fails, or `rows` itself, that raises when its turn comes. Then, or when the generator is closed, every
    piece still in the queue is cancelled.
    """
    ahead: Pending = asyncio.Queue()
    feeder = asyncio.create_task(_feed(rows, enqueue, permits, ahead))
    current: asyncio.Future[Outcome] | None = None
    try:
        while (current := await ahead.get()) is not None:
            outcome = await current
            current = None
            permits.release()
            yield outcome
            del outcome  # its audio must not be held while the next piece is made
        await feeder
    finally:
        feeder.cancel()
        await asyncio.gather(feeder, return_exceptions=True)
        for piece in _unfinished(current, ahead):
            _abandon(piece)
            permits.release()


async def _feed(rows: Rows, enqueue: Enqueue, permits: asyncio.Semaphore, ahead: Pending) -> None:
    index = 0
    try:
        async with aclosing(_iterate(rows)) as source:
            async for row in source:
                await permits.acquire()
                try:
                    ahead.put_nowait(enqueue(index, row))
                except BaseException:
                    permits.release()
                    raise
                index += 1
    finally:
        ahead.put_nowait(None)


async def _iterate(rows: Rows) -> AsyncGenerator[Row, None]:
    if isinstance(rows, Iterable):
        for row in rows:
            yield row
        return
    try:
        async for row in rows:
            yield row
    finally:
        if isinstance(rows, AsyncGenerator):
            await rows.aclose()


def _unfinished(current: asyncio.Future[Outcome] | None, ahead: Pending) -> Iterable[asyncio.Future[Outcome]]:
    if current is not None:
        yield current
    while not ahead.empty():
        piece = ahead.get_nowait()
        if piece is not None:
            yield piece


def _abandon(piece: asyncio.Future[Outcome]) -> None:
    if not piece.cancel() and not piece.cancelled():
        piece.exception()  # retrieved, so that asyncio does not log that it never was
