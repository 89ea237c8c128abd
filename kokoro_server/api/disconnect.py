"""Cancels the work for a request when its client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from typing import TypeVar

from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
WATCH_AFTER = 0.2  # seconds before the connection is watched: most requests are answered by then


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Awaits `work`. If the client leaves first, cancels it and raises ClientDisconnect. The body must be read."""
    task = asyncio.current_task()
    assert task is not None
    earlier_cancels, cancelled_here, finished = task.cancelling(), False, False
    watcher: asyncio.Task[None] | None = None

    def watch() -> None:
        nonlocal watcher
        watcher = asyncio.create_task(_wait_for_disconnect(receive))
        watcher.add_done_callback(cancel)

    def cancel(watcher: asyncio.Task[None]) -> None:
        nonlocal cancelled_here
        # If work and connection end in the same iteration of the event loop, this callback still runs afterwards.
        if not finished and not watcher.cancelled():
            cancelled_here = task.cancel()

    timer = asyncio.get_running_loop().call_later(WATCH_AFTER, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if cancelled_here and task.cancelling() == earlier_cancels + 1:  # no other cancellation is pending
            raise ClientDisconnect from None
        raise
    finally:
        finished = True
        timer.cancel()
        if watcher is not None:
            watcher.cancel()
        if cancelled_here:
            task.uncancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class CancellableStreamingResponse(StreamingResponse):
    """Closes its content at once when the client disconnects, also while it waits for the next chunk."""

    def __init__(self, content: AsyncGenerator[bytes | str, None], media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._content):
            try:
                await cancel_on_disconnect(receive, self.stream_response(send))
            except ClientDisconnect:
                scope["client_disconnected"] = True  # for the access log and metrics: the status has been sent
