"""The answers of a server that is stopping."""

from __future__ import annotations

import asyncio
from typing import Protocol

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api import errors
from kokoro_server.errors import EngineUnavailable

RETRY_AFTER = 5  # seconds, in which another server, or this one again, may be running
WATCHED = ("/health/live", "/metrics")  # answered to the end, for those who watch the server stop


class SpeakingSession(Protocol):
    @property
    def unsent_characters(self) -> int: ...


class RunningRequests:
    """The requests that are being answered, and whether the server still takes new ones."""

    def __init__(self) -> None:
        self.count = 0
        self.sessions: set[SpeakingSession] = set()  # of open WebSockets and Wyoming connections
        self.stopping = False

    @property
    def busy(self) -> bool:
        """Whether accepted work is unfinished. A WebSocket without unsent speech does not count."""
        return self.count > 0 or any(session.unsent_characters for session in self.sessions)


class GracefulShutdown:
    """Answers 503 to requests that come while the server stops, and to those that uvicorn cancels at the end of its
    grace period. A response that has started is cut off then.
    """

    def __init__(self, app: ASGIApp, running: RunningRequests) -> None:
        self.app = app
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in WATCHED:
            await self.app(scope, receive, send)
        elif self._running.stopping:
            await _refuse(scope, receive, send)
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        else:
            self._running.count += 1
            try:
                await self._answer(scope, receive, send)
            finally:
                self._running.count -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            await _refuse(scope, receive, send)


def shutting_down() -> EngineUnavailable:
    return EngineUnavailable("the server is shutting down; try again", retry_after=RETRY_AFTER)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    response = await errors.on_kokoro_error(HTTPConnection(scope), shutting_down())
    response.headers["Connection"] = "close"
    await response(scope, receive, send)
