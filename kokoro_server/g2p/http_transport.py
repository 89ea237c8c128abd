"""An HTTP/1.1 transport for httpx. An exchange takes a third of the event loop's time that httpx's own takes."""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from contextlib import aclosing
from typing import Any, cast

import httptools
import httpx

Address = tuple[str, int]
MAX_RESPONSE = 4_000_000  # bytes, also when decompressed; the longest call to G2P is answered with a tenth of it
COMPRESSED = ("gzip", "x-gzip", "deflate")
ANY_HEADER = zlib.MAX_WBITS + 32  # of gzip or zlib


class ResponseTooLarge(httpx.RequestError):
    """The rest of the response is not read."""

    def __init__(self) -> None:
        super().__init__(f"the answer has more than {MAX_RESPONSE} bytes")


class KeepAliveTransport(httpx.AsyncBaseTransport):
    """A pool of kept-alive connections, each for one exchange at a time. Other schemes than http use httpx's own."""

    def __init__(self) -> None:
        self._idle: defaultdict[Address, list[_Connection]] = defaultdict(list)
        self._fallback = httpx.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme != "http":
            return await _read(await self._fallback.handle_async_request(request))
        timeouts = request.extensions["timeout"]
        message = _request_head(request) + await request.aread()
        address = request.url.host, request.url.port or 80
        connection = self._take_idle(address)
        if connection is None:
            try:
                async with asyncio.timeout(timeouts["connect"]):
                    _, connection = await asyncio.get_running_loop().create_connection(_Connection, *address)
            except TimeoutError as error:
                raise httpx.ConnectTimeout("not connected in time") from error
            except OSError as error:
                raise httpx.ConnectError(str(error)) from error
        try:
            async with asyncio.timeout(timeouts["read"]):
                response = await connection.exchange(message)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error
        except httpx.TransportError:
            self._close_idle(address)  # if the service has ended, so have they, though that may not be noticed yet
            raise
        finally:
            if connection.reusable:
                self._idle[address].append(connection)
            else:
                connection.close()
        return response

    async def aclose(self) -> None:
        for address in list(self._idle):
            self._close_idle(address)
        await self._fallback.aclose()

    def _close_idle(self, address: Address) -> None:
        for connection in self._idle.pop(address, ()):
            connection.close()

    def _take_idle(self, address: Address) -> _Connection | None:
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection
        return None


async def _read(response: httpx.Response) -> httpx.Response:
    body = bytearray()
    async with aclosing(response):
        async for part in cast(httpx.AsyncByteStream, response.stream):
            body += part
            if len(body) > MAX_RESPONSE:
                raise ResponseTooLarge
    return _response(response.status_code, response.headers.raw, bytes(body))


def _response(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> httpx.Response:
    """Decompresses the body itself: httpx would do it without a limit, and a bomb of 4 MB holds gigabytes."""
    others = [each for each in headers if each[0].lower() != b"content-encoding"]
    encodings = [value.decode("latin-1").lower() for name, value in headers if name.lower() == b"content-encoding"]
    for encoding in encodings:
        if encoding in COMPRESSED and len(encodings) == 1:
            body = _decompressed(body)
        elif encoding != "identity":
            raise httpx.DecodingError(f"the answer is compressed in an unknown way: {encoding[:40]}")
    return httpx.Response(status, headers=others, content=body)


def _decompressed(body: bytes) -> bytes:
    stream = zlib.decompressobj(ANY_HEADER)
    try:
        content = stream.decompress(body, MAX_RESPONSE + 1)
    except zlib.error as error:
        raise httpx.DecodingError(f"the answer cannot be decompressed: {error}") from error
    if len(content) > MAX_RESPONSE:
        raise ResponseTooLarge
    if not stream.eof:
        raise httpx.DecodingError("the compressed answer is cut off")
    return content


def _request_head(request: httpx.Request) -> bytes:
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += (name + b": " + value for name, value in request.headers.raw)
    return b"\r\n".join(lines) + b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """The parser calls the `on_` methods."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._response: asyncio.Future[httpx.Response] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._until_close = False  # the response has no length: it ends where the connection does
        self.reusable = True

    async def exchange(self, message: bytes) -> httpx.Response:
        assert self._transport is not None
        self.reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._body, self._until_close = [], bytearray(), False
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        try:
            return await self._response
        finally:
            self._parser = None  # nothing more is expected

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from this class

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
        if self._until_close and error is None:
            self.on_message_complete()
        self._fail(httpx.RemoteProtocolError("the connection was closed before the end of the answer"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        names = {name.lower() for name, _ in self._headers}
        self._until_close = not names & {b"content-length", b"transfer-encoding"}

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > MAX_RESPONSE:
            self._fail(ResponseTooLarge())
            self.close()

    def on_message_complete(self) -> None:
        if self._response is not None and not self._response.done():
            try:
                response = _response(self._parser.get_status_code(), self._headers, bytes(self._body))
            except httpx.RequestError as error:
                self._fail(error)
                return
            self._response.set_result(response)
            self.reusable = not self._until_close and self._parser.should_keep_alive()

    def _fail(self, error: httpx.RequestError) -> None:
        self.reusable = False
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
