"""A span for every request of an ASGI application, from its headers to the last byte of its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from kokoro_server.errors import CLIENT_CLOSED_REQUEST
from kokoro_server.observability import tracing

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

NOT_TRACED = ("/health", "/metrics")  # polled every few seconds
RESPONSE_STARTS = ("http.response.start", "websocket.http.response.start")  # the latter refuses a WebSocket
AUDIO = (b"audio/", b"text/event-stream", b"application/x-ndjson")  # types of answers that begin with audio
CLOSED_AS_AGREED = (1000, 1001, 1005)  # codes of WebSockets


class TracedRequests:
    """ASGI middleware, the outermost, so that the log lines of all have the trace's id.

    A request continues the trace in its headers. With `roots`, a request without one begins a trace.
    """

    def __init__(self, app: App, *, roots: bool = True) -> None:
        self.app = app
        self._roots = roots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        span = self._begin(scope)
        if span is None:
            await self.app(scope, receive, send)
            return
        answer = _Answer(span, scope, receive, send)
        with tracing.use(span):
            try:
                await self.app(scope, answer.receive, answer.send)
            except BaseException as error:
                answer.failure = tracing.reason(error)
                raise
            finally:
                answer.end()

    def _begin(self, scope: Scope) -> Span | None:
        if scope["type"] not in ("http", "websocket") or scope["path"].startswith(NOT_TRACED):
            return None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        return tracing.begin(_method(scope), headers, root=self._roots)


class _Answer:
    """Writes into the span how a request was answered and how it ended."""

    def __init__(self, span: Span, scope: Scope, receive: Receive, send: Send) -> None:
        self._span = span
        self._scope = scope
        self._receive = receive
        self._send = send
        self._sending: Span | None = None
        self._bytes = 0
        self._status = 0  # of HTTP, once the answer has begun
        self._awaits_audio = scope["type"] == "websocket"
        self._accepted = False  # a WebSocket
        self.failure = ""

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            code = message.get("code", 1006)
            self._span.set({"websocket.close_code": code})
            if code not in CLOSED_AS_AGREED:
                self.failure = "client_gone"
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in RESPONSE_STARTS:
            self._start(message["status"], dict(message["headers"]))
        elif kind == "websocket.accept":
            self._accepted = True
        elif message.get("body"):
            self._bytes += len(message["body"])
            self._note_audio()
        elif message.get("seconds"):  # a WebSocket message with audio
            self._note_audio()
        await self._send(message)

    def _start(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        self._awaits_audio = status == 200 and headers.get(b"content-type", b"").startswith(AUDIO)
        if request := headers.get(b"x-request-id"):
            self._span.set({"kokoro.request_id": request.decode("latin-1")})
        self._sending = self._span.child("send")

    def _note_audio(self) -> None:
        if self._awaits_audio:
            self._awaits_audio = False
            self._span.event("first_audio")

    def end(self) -> None:
        span, method = self._span, _method(self._scope)
        span.set({"http.request.method": method, "url.path": self._scope["path"]})
        if route := getattr(self._scope.get("route"), "path", None):
            span.rename(f"{method} {route}")
            span.set({"http.route": route})
        if self._status:
            span.set({"http.response.status_code": self._status})
        is_answered = self._accepted or self._status not in (0, CLIENT_CLOSED_REQUEST)
        if self._scope.get("client_disconnected") or not (is_answered or self.failure):
            self.failure = "client_gone"
        if self._status >= 500:
            self.failure = self.failure or str(self._status)
        if self._sending:
            self._sending.set({"http.response.body.size": self._bytes})
            if self.failure:
                self._sending.fail(self.failure)
            self._sending.end()
        if self.failure:
            span.fail(self.failure)
        span.end()


def _method(scope: Scope) -> str:
    method: str = scope.get("method", "WEBSOCKET")
    return method
