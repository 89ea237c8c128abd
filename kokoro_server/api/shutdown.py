"""The response to requests that the server cannot finish before it stops."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api import errors
from kokoro_server.errors import EngineUnavailable

RETRY_AFTER = 5  # seconds, within which another server, or this one again, may be running


class GracefulShutdown:
    """Answers 503 to a request that uvicorn cancels at the end of its grace period. A response under way is cut off."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def tracking_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, tracking_send)
        except asyncio.CancelledError:
            if started:
                raise
            error = EngineUnavailable("the server is shutting down; try again", retry_after=RETRY_AFTER)
            response = await errors.on_kokoro_error(Request(scope), error)
            await response(scope, receive, send)
