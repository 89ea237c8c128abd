"""Gives every request an id, on its response and all its log lines, and logs and counts it once at its end."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.errors import CLIENT_CLOSED_REQUEST
from kokoro_server.observability.logs import request_id
from kokoro_server.observability.metrics import Metrics

log = logging.getLogger(__name__)

ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]

UNPRINTABLE = re.compile(r"[^\w./:@+-]")  # in a name from a client
VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
QUIET_PATHS = ("/health", "/metrics")  # polled every few seconds
WEBSOCKET_FAILED = 1011  # the code with which the server closes a WebSocket after an unexpected error
RESPONSE_STARTS = ("http.response.start", "websocket.http.response.start")  # the latter refuses a WebSocket


def new_request_id() -> str:
    return os.urandom(8).hex()


class AccessLog:
    """Pure ASGI middleware: a BaseHTTPMiddleware would hide the client's disconnect from the endpoint."""

    def __init__(self, app: ASGIApp, metrics: Metrics, on_unexpected: ErrorHandler) -> None:
        """`on_unexpected` returns the response to an unhandled exception."""
        self.app = app
        self._metrics = metrics
        self._on_unexpected = on_unexpected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        is_http = scope["type"] == "http"
        sent_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        identity = sent_id if VALID_REQUEST_ID.fullmatch(sent_id) else new_request_id()
        token = request_id.set(identity)
        response = _ResponseRecorder(scope, send, identity, self._metrics)
        try:
            await self.app(scope, receive, response.send)
        except BaseException as error:
            response.aborted = True
            if is_http and isinstance(error, Exception) and not response.started:
                answer = await self._on_unexpected(Request(scope, receive), error)
                await answer(scope, receive, response.send)
            raise  # uvicorn logs it with its traceback
        finally:
            if is_http or response.started:
                response.record(scope)
            elif response.accepted:  # it logs its own end, and its time is that of a conversation
                response.count(scope)
            request_id.reset(token)


class _ResponseRecorder:
    """Passes the response on, with the request's id, and notes facts for the log and the metrics."""

    def __init__(self, scope: Scope, send: Send, identity: str, metrics: Metrics) -> None:
        self._scope = scope
        self._send = send
        self._identity = identity
        self._metrics = metrics
        self._started = time.perf_counter()
        self._status = CLIENT_CLOSED_REQUEST
        self._awaits_audio = False
        self._audible: tuple[str, float] | None = None  # kind of answer, seconds from its start to its first sound
        self.started = False
        self.accepted = False  # a WebSocket
        self.aborted = False  # ended by an exception; its bytes may be incomplete

    async def send(self, message: Message) -> None:
        if message["type"] in RESPONSE_STARTS:
            self._status, self.started = message["status"], True
            headers = [*message["headers"], (b"x-request-id", self._identity.encode())]
            self._awaits_audio = self._status == 200 and dict(headers).get(b"content-type", b"").startswith(b"audio/")
            self._audible = self._scope.get("audible") if self._status == 200 else None
            if timing := self._timing():
                headers.append((b"server-timing", timing))
            message = {**message, "headers": headers}
        elif message["type"] == "websocket.accept":
            self._status, self.accepted = 101, True
        elif message["type"] == "websocket.close" and message.get("code") == WEBSOCKET_FAILED:
            self._status = 500
        elif message.get("body") and (self._awaits_audio or self._audible):
            self._observe_audio()
        await self._send(message)

    def _timing(self) -> bytes:
        """When the answer begins, and when its first sound is heard by a listener who hears it from then on."""
        total = time.perf_counter() - self._started
        steps = [f"total;dur={1000 * total:.1f}"] if self._awaits_audio else []
        if self._audible:
            steps.append(f"audible;dur={1000 * (total + self._audible[1]):.1f}")
        return ", ".join(steps).encode()

    def _observe_audio(self) -> None:
        """The first bytes of the answer's content are about to be sent."""
        seconds = time.perf_counter() - self._started
        if self._awaits_audio:
            self._metrics.first_audio.observe(seconds)
        if self._audible:
            kind, offset = self._audible
            self._metrics.first_audible.labels(kind).observe(seconds + offset)
        self._awaits_audio, self._audible = False, None

    def record(self, scope: Scope) -> None:
        if scope.get("client_disconnected"):
            self._status = CLIENT_CLOSED_REQUEST
        seconds = time.perf_counter() - self._started
        path: str = scope["path"]
        level = logging.DEBUG if path.startswith(QUIET_PATHS) else logging.INFO
        # The guard leaves the name here when keys are in use.
        caller = f" caller={scope['key_name']}" if "key_name" in scope else ""
        # OpenAI's clients name a model. Any name will do, so the log is the only place that shows it.
        model = f" model={UNPRINTABLE.sub('?', scope['model'])}" if "model" in scope else ""
        about = caller + model
        method = scope.get("method", "WEBSOCKET")
        log.log(
            level, "request method=%s path=%s status=%d ms=%.1f%s", method, path, self._status, seconds * 1000, about
        )
        self.count(scope)
        self._metrics.request_time.observe(seconds)

    def count(self, scope: Scope) -> None:
        # Only paths of existing routes become labels: clients can ask for any number of other paths.
        endpoint = getattr(scope.get("route"), "path", "other")
        ended = "broken_off" if self.aborted and self._status < 400 else outcome(self._status)
        self._metrics.requests.labels(endpoint, ended).inc()


def outcome(status: int) -> str:
    """How a request ended, as a metric label with few values."""
    if status < 400:
        return "ok"
    labels = {CLIENT_CLOSED_REQUEST: "client_gone", 429: "rejected", 504: "expired"}
    return labels.get(status, "invalid" if status < 500 else "failed")
