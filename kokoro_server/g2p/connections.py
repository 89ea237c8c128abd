"""HTTP/1.1 to a service nearby, for httpx: an exchange takes a third of the event loop's time that its own does."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, cast

import httptools
import httpx

Address = tuple[str, int]


class Connections(httpx.AsyncBaseTransport):
    """Connections that are kept, each for one exchange at a time. Whatever is not plain http goes httpx's own way."""

    def __init__(self) -> None:
        self._idle: defaultdict[Address, list[_Connection]] = defaultdict(list)
        self._others = httpx.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme != "http":
            return await self._others.handle_async_request(request)
        limits = request.extensions["timeout"]
        message = _head(request) + await request.aread()
        address = request.url.host, request.url.port or 80
        connection = self._kept(address)
        if connection is None:
            try:
                async with asyncio.timeout(limits["connect"]):
                    _, connection = await asyncio.get_running_loop().create_connection(_Connection, *address)
            except TimeoutError as error:
                raise httpx.ConnectTimeout("not connected in time") from error
            except OSError as error:
                raise httpx.ConnectError(str(error)) from error
        try:
            async with asyncio.timeout(limits["read"]):
                response = await connection.exchange(message)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error
        finally:
            if connection.reusable:
                self._idle[address].append(connection)
            else:
                connection.close()
        return response

    async def aclose(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        await self._others.aclose()

    def _kept(self, address: Address) -> _Connection | None:
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection
        return None


def _head(request: httpx.Request) -> bytes:
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += (name + b": " + value for name, value in request.headers.raw)
    return b"\r\n".join(lines) + b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """The parser calls the `on_` methods."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._answer: asyncio.Future[httpx.Response] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._endless = False  # the answer ends where the connection does
        self.reusable = True

    async def exchange(self, message: bytes) -> httpx.Response:
        assert self._transport is not None
        self.reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._body, self._endless = [], bytearray(), False
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        try:
            return await self._answer
        finally:
            self._parser = None  # nothing more is expected

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by name

    def data_received(self, data: bytes) -> None:
        try:
            if self._parser is None:
                raise httptools.HttpParserError("nothing was asked")
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"no HTTP: {error}"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        if self._endless and error is None:
            self.on_message_complete()
        self._fail(httpx.RemoteProtocolError("the connection was closed before the end of the answer"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        names = {name.lower() for name, _ in self._headers}
        self._endless = not names & {b"content-length", b"transfer-encoding"}

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            status = self._parser.get_status_code()
            self._answer.set_result(httpx.Response(status, headers=self._headers, content=bytes(self._body)))
            self.reusable = not self._endless and self._parser.should_keep_alive()

    def _fail(self, error: httpx.TransportError) -> None:
        self.reusable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
