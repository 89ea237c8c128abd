"""Rows of the fault matrix: clients that leave, stop reading, or only sit there."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.faults.checks import Fault, injected, leave
from tests.servers import Server
from tests.services.faulty import SLOW

REQUESTS = int(os.environ.get("FAULT_REQUESTS", "100"))
IDLE = int(os.environ.get("FAULT_IDLE", "50"))
AT_ONCE = 40
PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˌOvəɹ ðə lˈAzi dˈɔɡ. "
NDJSON = {"Accept": "application/x-ndjson"}


async def test_disconnect_while_queued(faulty: Server) -> None:
    how = "20 clients leave while their rows wait behind a slow pass"
    async with injected(faulty, "disconnect while queued", how) as fault, asyncio.TaskGroup() as group:
        slow = group.create_task(fault.post(text="Slow.", speed=SLOW))
        await fault.until(lambda status: status["running_rows"] > 0)
        before = await cancelled(fault)
        waiting = [asyncio.create_task(fault.post(phonemes=PHONEMES)) for _ in range(20)]
        await fault.until(lambda status: status["current_size"] >= 20 or slow.done())
        await leave(waiting)
        assert (await slow).status_code == 200
        await fault.idle()
        assert await cancelled(fault) > before


async def cancelled(fault: Fault) -> int:
    found: int = (await fault.get("/health/batching")).json()["performance"]["cancelled"]
    return found


async def test_disconnect_in_a_running_batch(faulty: Server) -> None:
    how = "8 clients leave while their rows are on the device, beside rows of others"
    async with injected(faulty, "disconnect in a running batch", how) as fault:
        waiting = [asyncio.create_task(fault.post(phonemes=PHONEMES, speed=SLOW)) for _ in range(8)]
        await fault.until(lambda status: status["running_rows"] >= 2)
        await leave(waiting)


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/tts/stream", {}, {"format": "wav"}),
        ("/tts/stream", {}, {"format": "aac"}),
        ("/tts/captioned", NDJSON, {"format": "mp3"}),
    ],
)
async def test_disconnect_mid_stream(faulty: Server, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
    how = f"4 clients of {path} leave after the first bytes"
    async with injected(faulty, f"disconnect mid-stream, {body['format']}", how) as fault:

        async def listen() -> None:
            fault.sent += 1
            url, body_ = f"{faulty.url}{path}", {"phonemes": PHONEMES * 40, **body}
            async with fault.client.stream("POST", url, json=body_, headers=headers) as response:
                assert response.status_code == 200
                await anext(response.aiter_raw())
            fault.abandoned += 1

        await asyncio.gather(*(listen() for _ in range(4)))


async def test_thousands_of_requests_half_of_which_leave(faulty: Server) -> None:
    how = f"{REQUESTS} requests, {AT_ONCE} at a time; half leave after 0 to 0.5 s"
    logged = len(faulty.lines())  # by tests before, some of which break streams off
    async with injected(faulty, "requests that leave at random moments", how) as fault:
        chance, left = random.Random(1), iter(range(REQUESTS))

        async def client() -> None:
            for number in left:
                kind = chance.choice(("/tts", "/tts", "/tts/stream", "/tts/captioned"))
                request = asyncio.create_task(fault.post(kind, phonemes=PHONEMES * chance.choice((1, 1, 3))))
                await asyncio.wait({request}, timeout=chance.uniform(0, 0.5) if number % 2 else None)
                await leave({request})
                if not request.cancelled():
                    assert request.result().status_code == 200

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    assert "Exception in ASGI" not in faulty.lines()[logged:]


@asynccontextmanager
async def unread_stream(server: Server) -> AsyncIterator[None]:
    """A stream whose first byte is read and nothing after it, by a socket that holds little."""
    parts = urlsplit(server.url)
    speech = {"phonemes": PHONEMES * 2, "sample_rate": 48_000, "sample_format": "pcm_f32le"}
    body = httpx.Request("POST", f"{server.url}/tts/stream", json=speech)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    with connection:
        await loop.sock_connect(connection, (parts.hostname, parts.port))
        head = b"POST /tts/stream HTTP/1.1\r\n" + b"".join(b"%s: %s\r\n" % header for header in body.headers.raw)
        await loop.sock_sendall(connection, head + b"\r\n" + body.content)
        assert (await loop.sock_recv(connection, 12)) == b"HTTP/1.1 200"
        yield


async def test_a_reader_that_stops_reading_holds_up_nobody(faulty: Server) -> None:
    how = "4 streams, read up to their first bytes"
    async with injected(faulty, "reader that stops reading", how) as fault, AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(unread_stream(faulty))
        fault.sent, fault.abandoned = fault.sent + 4, fault.abandoned + 4
        answers = await asyncio.gather(*(fault.post(text=f"Number {n}.") for n in range(8)))
        assert [answer.status_code for answer in answers] == [200] * 8


@pytest.mark.slow
async def test_idle_connections_cost_nobody(faulty: Server) -> None:
    how = f"{IDLE} WebSockets that say nothing and {IDLE} streams that nobody reads"
    async with injected(faulty, "idle WebSockets and streams", how) as fault, AsyncExitStack() as stack:
        url = f"{faulty.url.replace('http', 'ws', 1)}/tts/ws"
        for _ in range(IDLE):
            await stack.enter_async_context(connect(url))
        await asyncio.gather(*(stack.enter_async_context(unread_stream(faulty)) for _ in range(IDLE)))
        fault.sent, fault.abandoned = fault.sent + 2 * IDLE, fault.abandoned + 2 * IDLE
        answers = await asyncio.gather(*(fault.post(text=f"Number {n}.") for n in range(20)))
        assert [answer.status_code for answer in answers] == [200] * 20
