"""The client's own HTTP transport: responses of every form, keep-alive, and faults as httpx's own exceptions."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import uvloop

from kokoro_server import languages
from kokoro_server.errors import G2PFailed
from kokoro_server.g2p.client import G2PClient
from kokoro_server.g2p.http_transport import KeepAliveTransport, ResponseTooLarge

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def client(timeout: float = 5.0) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=KeepAliveTransport(), timeout=timeout, trust_env=False)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return head + (await reader.readexactly(length[0]) if length else b"")


ZIPPED = gzip.compress(b"OK", mtime=0)


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nO\r\n1\r\nK\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nOK",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(ZIPPED), ZIPPED),
    ],
    ids=["length", "chunked", "until close", "gzip"],
)
@pytest.mark.parametrize("bytewise", [False, True])
async def test_responses_of_every_form_are_read(answer: bytes, bytewise: bool) -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        for start in range(0, len(answer), 1 if bytewise else len(answer)):
            writer.write(answer[start : start + (1 if bytewise else len(answer))])
            await writer.drain()
            await asyncio.sleep(0)

    async with serving(serve) as url, client() as http:
        response = await http.post(f"{url}/convert?a=b", json={"text": "ä"})
    assert (response.status_code, response.text) == (200, "OK")
    assert requests[0].startswith(b"POST /convert?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert requests[0].endswith('\r\n\r\n{"text":"ä"}'.encode())


async def test_a_connection_is_kept_and_two_requests_at_once_take_two() -> None:
    connections = 0
    both = asyncio.Barrier(2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            if b"/both" in await read_request(reader):
                await both.wait()
            writer.write(OK)

    async with serving(serve) as url, client() as http:
        for _ in range(3):
            assert (await http.get(url)).text == "OK"
        assert connections == 1
        await asyncio.gather(http.get(f"{url}/both"), http.get(f"{url}/both"))
        assert connections == 2


def test_connections_work_on_the_event_loop_of_the_server() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_a_connection_is_kept_and_two_requests_at_once_take_two())


async def test_a_connection_that_the_service_closed_is_not_used_again() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)

    async with serving(serve) as url, client() as http:
        for _ in range(3):
            assert (await http.get(url)).text == "OK"
            await asyncio.sleep(0.05)


async def test_after_a_broken_exchange_no_connection_of_before_is_used() -> None:
    connections = 0
    both = asyncio.Barrier(2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while b"/end" not in (request := await read_request(reader)):
            if b"/both" in request:
                await both.wait()
            writer.write(OK)

    async with serving(serve) as url, client() as http:
        await asyncio.gather(http.get(f"{url}/both"), http.get(f"{url}/both"))
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(f"{url}/end")
        assert (await http.get(url)).text == "OK"
        assert connections == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nOK", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nOK", httpx.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH_9.6\r\n", httpx.RemoteProtocolError),
    ],
    ids=["nothing", "short", "short chunk", "no HTTP"],
)
async def test_a_broken_response_is_a_transport_error(answer: bytes, error: type[Exception]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)

    async with serving(serve) as url, client() as http:
        with pytest.raises(error):
            await http.get(url)


async def test_nobody_listening_is_a_connect_error() -> None:
    async with serving(lambda _reader, _writer: asyncio.sleep(0)) as url:
        pass
    async with client() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_an_exchange_that_is_given_up_closes_its_connection(cancelled: bool) -> None:
    reading, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        reading.set()
        try:
            await reader.read()
        finally:
            closed.set()

    async with serving(serve) as url, client(30.0 if cancelled else 0.05) as http:
        asking = asyncio.create_task(http.get(url))
        await reading.wait()
        if cancelled:
            asking.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else httpx.ReadTimeout):
            await asking
        await asyncio.wait_for(closed.wait(), 5)


@pytest.mark.parametrize("head", [b"Content-Length: 1000000000\r\n\r\n", b"\r\n"], ids=["length", "until close"])
async def test_an_endless_answer_is_not_read_to_its_end(head: bytes) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        while True:
            writer.write(b" " * 100_000)
            await writer.drain()
            sent += 100_000

    async with serving(endless) as url, asyncio.timeout(60):
        service = G2PClient(url, 60)
        with pytest.raises(G2PFailed, match="4000000 bytes"):
            await service.convert(["Hello."], languages.EN_US)
        await service.aclose()
    assert sent < 50_000_000


@pytest.mark.parametrize(
    ("encoding", "body", "error"),
    [
        (b"gzip", gzip.compress(bytes(20_000_000)), ResponseTooLarge),
        (b"deflate", zlib.compress(bytes(20_000_000)), ResponseTooLarge),
        (b"gzip, gzip", gzip.compress(ZIPPED), httpx.DecodingError),
        (b"br", b"OK", httpx.DecodingError),
        (b"gzip", b"OK", httpx.DecodingError),
        (b"gzip", ZIPPED[:-4], httpx.DecodingError),
    ],
    ids=["gzip bomb", "deflate bomb", "twice", "unknown", "not gzip", "cut off"],
)
async def test_a_compressed_answer_is_bounded(encoding: bytes, body: bytes, error: type[Exception]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (encoding, len(body))
        writer.write(head + body)

    async with serving(serve) as url, client() as http:
        with pytest.raises(error):
            await http.get(url)
