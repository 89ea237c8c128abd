"""Work that stops when the client that asked for it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
NOTICED = 0.2  # seconds after which it is looked whether the client is still there: most are answered by then


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled if the client leaves first. The body must have been read already."""
    working = asyncio.current_task()
    assert working is not None
    asked, left = working.cancelling(), False
    gone: asyncio.Task[None] | None = None

    def watch() -> None:
        nonlocal gone
        gone = asyncio.create_task(_disconnected(receive))
        gone.add_done_callback(leave)

    def leave(watching: asyncio.Task[None]) -> None:
        nonlocal left
        if not watching.cancelled():
            left = working.cancel()

    timer = asyncio.get_running_loop().call_later(NOTICED, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if left and working.cancelling() == asked + 1:  # by us and by nobody else
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        if gone is not None:
            gone.remove_done_callback(leave)
            gone.cancel()
        if left:
            working.uncancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Streamed(StreamingResponse):
    """A stream that is closed at once when the client leaves, also while it waits for something to send."""

    def __init__(self, content: AsyncGenerator[bytes | str, None], media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._content):
            try:
                await while_connected(receive, self.stream_response(send))
            except ClientDisconnect:
                scope["client_gone"] = True  # too late for another status: for the log and the count
