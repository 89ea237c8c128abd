"""The answer to requests while too many connections are open."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kokoro_server.api import errors
from kokoro_server.api.middleware.access_log import QUIET_PATHS
from kokoro_server.errors import TooBusy
from kokoro_server.http.protocol import CROWDED, RETRY_AFTER, too_many_connections


class ConnectionLimit:
    """Answers 429 and closes the connection. Probes and metrics are answered as usual."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope.get(CROWDED) or scope["path"].startswith(QUIET_PATHS):
            await self.app(scope, receive, send)
            return
        error = TooBusy(too_many_connections(self._limit), retry_after=RETRY_AFTER)
        response = await errors.on_kokoro_error(Request(scope), error)
        response.headers["Connection"] = "close"
        await response(scope, receive, send)
