"""A request's id, on its answer and on every log line it causes; one line, and one count, per request when it ends."""

from __future__ import annotations

import logging
import os
import re
import time
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.metrics import Metrics

log = logging.getLogger(__name__)

NO_REQUEST = "-"
request_id: ContextVar[str] = ContextVar("request_id", default=NO_REQUEST)

ACCEPTED_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
CLIENT_GONE = 499  # what the log says of a request whose client left before its answer
QUIET_PATHS = ("/health", "/metrics")  # polled every few seconds


def new_id() -> str:
    return os.urandom(8).hex()


class RequestContext:
    """Pure ASGI: a BaseHTTPMiddleware would hide the client's disconnect from the endpoint."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        identity = given if ACCEPTED_ID.fullmatch(given) else new_id()
        token = request_id.set(identity)
        answer = _Answer(send, identity, self._metrics)
        try:
            await self.app(scope, receive, answer.send)
        except BaseException:
            answer.broken = True
            raise
        finally:
            answer.account(scope)
            request_id.reset(token)


class _Answer:
    """Passes an answer on and takes note of it."""

    def __init__(self, send: Send, identity: str, metrics: Metrics) -> None:
        self._send = send
        self._identity = identity
        self._metrics = metrics
        self._started = time.perf_counter()
        self._status = CLIENT_GONE
        self._awaits_audio = False
        self.broken = False  # ended by an exception, its bytes perhaps not complete

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self._identity.encode())]
            self._awaits_audio = self._status == 200 and dict(headers).get(b"content-type", b"").startswith(b"audio/")
            message = {**message, "headers": headers}
        elif self._awaits_audio and message.get("body"):
            self._awaits_audio = False
            self._metrics.first_audio.observe(time.perf_counter() - self._started)
        await self._send(message)

    def account(self, scope: Scope) -> None:
        if scope.get("client_gone"):
            self._status = CLIENT_GONE
        seconds = time.perf_counter() - self._started
        path: str = scope["path"]
        level = logging.DEBUG if path.startswith(QUIET_PATHS) else logging.INFO
        log.log(
            level, "request method=%s path=%s status=%d ms=%.1f", scope["method"], path, self._status, seconds * 1000
        )
        # Only paths that exist become labels: anybody can ask for others without end.
        route = scope.get("route")
        endpoint = getattr(route, "path", "other")
        ended = "broken_off" if self.broken and self._status < 400 else outcome(self._status)
        self._metrics.requests.labels(endpoint, ended).inc()
        self._metrics.request_time.observe(seconds)


def outcome(status: int) -> str:
    """What became of a request, as a label with few values."""
    if status < 400:
        return "ok"
    named = {CLIENT_GONE: "client_gone", 429: "rejected", 504: "expired"}
    return named.get(status, "invalid" if status < 500 else "failed")
