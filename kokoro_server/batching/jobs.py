"""Long texts: many pieces, few of them in the queue at once, audio in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing

from kokoro_server.batching.entry import Outcome
from kokoro_server.engine.protocol import Row

Rows = Iterable[Row] | AsyncIterable[Row]
Enqueue = Callable[[int, Row], asyncio.Future[Outcome]]


async def in_order(rows: Rows, enqueue: Enqueue, room: asyncio.Semaphore) -> AsyncGenerator[Outcome, None]:
    """The outcomes of `rows`, in order. `enqueue(index, row)` is called ahead, as far as there is `room`.

    A row that fails, or a source that does, raises when its turn comes. Then, or when the generator is closed, every
    piece still in the queue is cancelled.
    """
    ahead: asyncio.Queue[asyncio.Future[Outcome] | None] = asyncio.Queue()
    feeder = asyncio.create_task(_feed(rows, enqueue, room, ahead))
    pending: asyncio.Future[Outcome] | None = None
    try:
        while (pending := await ahead.get()) is not None:
            outcome = await pending
            pending = None
            room.release()
            yield outcome
            del outcome  # not ours to keep while the next piece is being made
        await feeder
    finally:
        feeder.cancel()
        await asyncio.gather(feeder, return_exceptions=True)
        for piece in _left(pending, ahead):
            _abandon(piece)
            room.release()


async def _feed(
    rows: Rows, enqueue: Enqueue, room: asyncio.Semaphore, ahead: asyncio.Queue[asyncio.Future[Outcome] | None]
) -> None:
    index = 0
    try:
        async with aclosing(_iterate(rows)) as source:
            async for row in source:
                await room.acquire()
                try:
                    ahead.put_nowait(enqueue(index, row))
                except BaseException:
                    room.release()
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


def _left(
    pending: asyncio.Future[Outcome] | None, ahead: asyncio.Queue[asyncio.Future[Outcome] | None]
) -> Iterable[asyncio.Future[Outcome]]:
    if pending is not None:
        yield pending
    while not ahead.empty():
        piece = ahead.get_nowait()
        if piece is not None:
            yield piece


def _abandon(piece: asyncio.Future[Outcome]) -> None:
    if not piece.cancel() and not piece.cancelled():
        piece.exception()  # seen, so that the loop does not report it as lost
