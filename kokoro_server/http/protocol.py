"""Limits on the head of a request: uvicorn has none and waits for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from kokoro_server.http.framing import without_chunks
from kokoro_server.http.half_closed import HalfClosed
from kokoro_server.http.small_reads import SmallReads

MAX_TARGET = 8_000  # bytes of a path with its query
MAX_HEADER = 8_000  # bytes of one header: websockets takes lines of 8,192 and leaves a longer one unanswered
MAX_HEADERS = 100
MAX_HEAD = 32_768  # bytes of a request line and all headers
SPARE_CONNECTIONS = 50  # above the limit, so that probes are answered and clients are asked to come back
RETRY_AFTER = 1  # seconds
FIRST_MOMENT = 0.5  # seconds in which the first request on a new connection usually comes
KEEP_ALIVE = 75  # seconds for the next request on a connection: longer than clients and proxies keep one that is idle
CROWDED = "crowded"  # set in a request's scope when there are too many connections


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    connections: int
    seconds: float  # in which a client must send the head of a request
    elsewhere: Callable[[], int] = lambda: 0  # connections that other processes have, which count too


@dataclass(frozen=True, slots=True)
class Refusal:
    status: HTTPStatus
    code: str
    message: str


def limited(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """The protocol for `uvicorn.Config`, which takes only a class."""
    return type("Protocol", (LimitedProtocol,), {"limits": limits})


class LimitedServer(uvicorn.Server):
    """Closes overdue connections once a second: cheaper than a timer for each."""

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedProtocol):
                    connection.close_if_overdue()
        return await super().on_tick(counter)


class LimitedProtocol(HttpToolsProtocol):
    """One connection. A head that is too large gets 414 or 431, one that does not come gets 408.

    A client that is answered before it has sent its whole request has as long to send the rest, which is dropped: if
    the connection were closed at once, it would be reset, and the answer lost on the way.
    """

    limits: ClassVar[ConnectionLimits]

    _waiting_since: float | None = None  # for a head, or for the rest of a request that has been answered
    _in_head = False
    _head_bytes = 0  # of a head that is not whole yet, without those that came with the end of an earlier request
    _refusal: Refusal | None = None  # of the head at hand
    _refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._waiting_since = self.loop.time()
        if self._is_crowded(SPARE_CONNECTIONS):
            self._refuse(self._too_many_connections())
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._refuse(_head_too_large())
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._waiting_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_head, self._waiting_since = False, None
        self._refusal = self._check_head()
        if self._refusal:
            raise ValueError(self._refusal.message)  # the parser stops, and uvicorn calls `send_400_response`
        cast(dict[str, Any], self.scope)[CROWDED] = self._is_crowded()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that has sent a whole request may end its sending, and still gets the answer.

        One that ends it while it reads the answer has left.
        """
        is_half_closed = self._is_answering() and not (
            self._refused or self.pipeline or self.cycle.more_body or self.cycle.response_started
        )
        if is_half_closed:
            self.cycle.keep_alive = False
            self.cycle.transport = cast(asyncio.Transport, HalfClosed(self.transport))
        return is_half_closed

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        is_old = cycle.scope["http_version"] == "1.0"
        super()._start_asgi_task(cycle, without_chunks(cycle, app) if is_old else app)

    def handle_websocket_upgrade(self) -> None:
        if self._is_crowded():
            self._refuse(self._too_many_connections())
        else:
            super().handle_websocket_upgrade()
            if not self.transport.is_closing():
                self.transport.set_protocol(SmallReads(cast(asyncio.Protocol, self.transport.get_protocol())))

    def shutdown(self) -> None:
        """The server stops. A connection that was made just now gets an answer: its request may be on the way."""
        if self.cycle is None and self._waiting_since and self.loop.time() - self._waiting_since < FIRST_MOMENT:
            self.loop.call_later(FIRST_MOMENT, super().shutdown)
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or Refusal(HTTPStatus.BAD_REQUEST, "bad_request", msg))

    def close_if_overdue(self) -> None:
        seconds = KEEP_ALIVE if self._is_kept_alive() else self.limits.seconds
        if self._waiting_since is None or self.loop.time() - self._waiting_since <= seconds:
            return
        if self._is_answering():  # the next request may wait that long for its turn
            return
        if self._in_head and not self._refused:
            self._refuse(
                Refusal(
                    HTTPStatus.REQUEST_TIMEOUT,
                    "request_timeout",
                    f"the request's headers took longer than the {self.limits.seconds:g} s allowed (READ_TIMEOUT)",
                )
            )
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_kept_alive(self) -> bool:
        """Whether it has had its answer and has asked nothing since, and nobody needs its place."""
        is_idle = self.cycle is not None and not (self._in_head or self._refused or self.cycle.more_body)
        return is_idle and not self._is_crowded(-self.limits.connections // 2)

    def _is_crowded(self, spare: int = 0) -> bool:
        return len(self.connections) + self.limits.elsewhere() > self.limits.connections + spare

    def _check_head(self) -> Refusal | None:
        if len(self.url) > MAX_TARGET:
            message = f"the path and query have {len(self.url)} bytes; at most {MAX_TARGET} are allowed"
            return Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "uri_too_long", message)
        sizes = [len(name) + len(value) for name, value in self.headers]
        if len(sizes) > MAX_HEADERS or max(sizes, default=0) > MAX_HEADER or len(self.url) + sum(sizes) > MAX_HEAD:
            return _head_too_large()
        return None

    def _too_many_connections(self) -> Refusal:
        return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too_busy", too_many_connections(self.limits.connections))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer in place of the application, and end. In the middle of another answer, only end."""
        if self.cycle is not None and self._is_answering():
            if self.cycle.response_started:
                self.transport.close()
                return
            self.cycle.disconnected = True  # what the application still sends is dropped
            self.cycle.message_event.set()
        self._refused, self._waiting_since = True, self.loop.time()
        self.transport.write(self._answer(refusal))
        self.transport.write_eof()

    def _answer(self, refusal: Refusal) -> bytes:
        body = json.dumps({"error": {"code": refusal.code, "message": refusal.message, "field": None}}).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        if refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
            headers.append((b"retry-after", str(RETRY_AFTER).encode()))
        lines = [f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}".encode()]
        lines += (name + b": " + value for name, value in headers)
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


def too_many_connections(limit: int) -> str:
    return f"more than {limit} connections are open (MAX_CONNECTIONS); try again"


def _head_too_large() -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        f"the request's headers are too large: at most {MAX_HEADERS} are allowed, with {MAX_HEADER} bytes each and "
        f"{MAX_HEAD} in all",
    )
