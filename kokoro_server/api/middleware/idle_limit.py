"""Breaks off a connection whose client does not read."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api.middleware.stream_slots import StreamStats
from kokoro_server.observability.metrics import Metrics

log = logging.getLogger(__name__)

# Bytes of a body that are sent at once. Within a larger part, uvicorn does not show how far the client has read.
MAX_PART = 256 * 1024


class ClientStalled(OSError):
    """Raised out of `send`. An OSError, which Starlette takes for a WebSocket client that has left."""


class IdleLimit:
    """ASGI middleware. `send` waits while the connection's buffers are full, at most `timeout` seconds.

    It also runs the callbacks of `scope["on_end"]`, however the request ends.
    """

    def __init__(self, app: ASGIApp, timeout: float, stats: StreamStats, metrics: Metrics) -> None:
        self.app = app
        self._timeout = timeout
        self._stats = stats
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        stalled = False

        async def limited_send(message: Message) -> None:
            nonlocal stalled
            if stalled:
                raise ClientStalled
            try:
                async with asyncio.timeout(self._timeout):
                    await send(message)
            except TimeoutError:
                stalled = True
                self._break_off(scope)
                raise ClientStalled from None

        async def send_in_parts(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= MAX_PART:
                await limited_send(message)
                return
            for start in range(0, len(body), MAX_PART):
                end = start + MAX_PART
                more = end < len(body) or message.get("more_body", False)
                await limited_send({**message, "body": body[start:end], "more_body": more})

        try:
            async with AsyncExitStack() as scope["on_end"]:
                await self.app(scope, receive, send_in_parts)
        except Exception:
            if not stalled:
                raise

    def _break_off(self, scope: Scope) -> None:
        log.warning("broken off, the client took nothing for %g s path=%s", self._timeout, scope["path"])
        self._stats.stalled += 1
        self._metrics.stalled.inc()
        scope["client_disconnected"] = True  # for the access log: a stalled client counts as one that left
        if connection := scope.get("extensions", {}).get("kokoro.connection"):
            connection["abort"]()
