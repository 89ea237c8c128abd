"""What a request is told that the server cannot finish before it stops."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api import errors
from kokoro_server.errors import EngineUnavailable

RETRY_AFTER = 5  # seconds, in which another server, or this one again, may be there


class StopAnswer:
    """Answers 503 where uvicorn cancels a request, having waited for it long enough. What has begun breaks off."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except asyncio.CancelledError:
            if begun:
                raise
            error = EngineUnavailable("the server is shutting down; try again", retry_after=RETRY_AFTER)
            response = await errors.on_kokoro_error(Request(scope), error)
            await response(scope, receive, send)
