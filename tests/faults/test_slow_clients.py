"""Clients that read slowly, or not at all, under a real server: a listener is waited for, a dead one is noticed."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests import servers
from tests.servers import Server, say

IMPATIENT = ("-m", "tests.services.impatient")
IDLE_TIMEOUT = 6.0  # seconds
JOB_TIMEOUT = 4.0
MAX_STREAMS = 4
PATIENCE = 120
RATE = 48_000  # bytes a second of 16-bit samples at 24 kHz
SMALL_BUFFER = 32_768  # bytes that the client's system takes before the client reads
# Five minutes of audio, little of which has to be made: much more than the buffers of both systems hold.
LONG = "".join(f"Number {n}. [pause:10s]" for n in range(30))
SHORTER = LONG[: len(LONG) // 3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared_g2p: str) -> Iterator[Server]:
    settings = {
        "STREAM_IDLE_TIMEOUT": f"{IDLE_TIMEOUT}",
        "JOB_TIMEOUT": f"{JOB_TIMEOUT}",
        "MAX_STREAMS": f"{MAX_STREAMS}",
        "G2P_SERVICE_URL": shared_g2p,
    }
    with servers.running(IMPATIENT, tmp_path_factory.mktemp("impatient") / "log", **settings) as running:
        yield running


def small_socket(server: Server) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    made.settimeout(PATIENCE)
    made.connect((urlsplit(server.url).hostname, urlsplit(server.url).port))
    return made


@contextmanager
def posted(server: Server, path: str, body: dict[str, Any]) -> Iterator[tuple[HTTPResponse, socket.socket]]:
    """A response of which nothing but the head is read, and its connection."""
    connection = HTTPConnection("localhost")
    connection.sock = client = small_socket(server)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        yield connection.getresponse(), client
    finally:
        connection.close()


@asynccontextmanager
async def agent(server: Server) -> AsyncIterator[ClientConnection]:
    url = f"{server.url.replace('http', 'ws', 1)}/tts/ws"
    async with connect(url, sock=small_socket(server), max_queue=1, close_timeout=1, ping_interval=None) as connection:
        assert json.loads(await connection.recv())["type"] == "ready"
        yield connection


async def read_all(connection: ClientConnection) -> None:
    while True:
        await connection.recv()


def streaming(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = get(server, "/health/streaming").json()
    return found


def get(server: Server, path: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", timeout=PATIENCE)


def stream(server: Server, text: str) -> httpx.Response:
    return httpx.post(f"{server.url}/tts/stream", json={"text": text}, timeout=PATIENCE)


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


def is_open(server: Server, client: socket.socket) -> bool:
    """Whether the server's end of this connection is there."""
    ends = f":{urlsplit(server.url).port:04X}", f":{client.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any((line[1][-5:], line[2][-5:]) == ends for line in lines)


def read_slowly(server: Server, path: str, body: dict[str, Any]) -> int:
    """The bytes of a response of 14 MB, as many a second as take three times JOB_TIMEOUT."""
    received, started = 0, time.monotonic()
    with posted(server, path, body) as (response, _):
        assert response.status == 200
        while data := response.read(100_000):  # raises where the stream is broken off
            received += len(data)
            time.sleep(0.1)
    assert time.monotonic() - started > 3 * JOB_TIMEOUT
    return received


@pytest.mark.slow
async def test_streams_read_for_many_times_the_job_timeout_arrive_whole(server: Server) -> None:
    openai = {"input": LONG, "model": "kokoro", "voice": "af_heart", "response_format": "pcm"}
    received = await asyncio.gather(
        asyncio.to_thread(read_slowly, server, "/tts/stream", {"text": LONG, "format": "pcm"}),
        asyncio.to_thread(read_slowly, server, "/v1/audio/speech", openai),
    )
    whole = len(say(server, LONG, format="pcm").content)
    assert received == [whole, whole]


async def test_an_agent_that_reads_as_it_plays_stays_and_a_cancel_finds_little_on_its_way(server: Server) -> None:
    """At ten times the pace, with a ping every half second that must be answered in six."""
    async with agent(server) as connection:
        await connection.send(json.dumps({"type": "append", "text": LONG}))
        await connection.send(json.dumps({"type": "flush"}))
        received = 0
        while received < 80 * RATE:
            message = await connection.recv()
            if isinstance(message, bytes):
                received += len(message)
                await asyncio.sleep(len(message) / RATE / 10)
        await connection.send(json.dumps({"type": "cancel"}))
        stale = 0
        while isinstance(message := await connection.recv(), bytes) or '"cancelled"' not in message:
            stale += len(message) if isinstance(message, bytes) else 0
        # Beside the five seconds there may be as much that was sent until the server has read the cancel.
        assert stale < 10 * RATE


async def test_an_agent_that_reads_at_once_is_not_held_up(server: Server) -> None:
    started, received = time.monotonic(), 0
    async with agent(server) as connection:
        await connection.send(json.dumps({"type": "append", "text": SHORTER}))
        await connection.send(json.dumps({"type": "flush"}))
        while isinstance(message := await connection.recv(), bytes) or '"flushed"' not in message:
            received += len(message) if isinstance(message, bytes) else 0
    assert received / RATE > 90
    assert received / RATE > 3 * (time.monotonic() - started)


@pytest.mark.parametrize(
    "text", [pytest.param("", id="idle", marks=pytest.mark.slow), pytest.param(LONG, id="spoken to")]
)
async def test_an_agent_that_answers_nothing_is_noticed(server: Server, text: str) -> None:
    left = server.lines().count("agent left")
    async with agent(server) as connection:
        if text:
            await connection.send(json.dumps({"type": "append", "text": text}))
            await connection.recv()
        connection.transport.pause_reading()
        await until(lambda: server.lines().count("agent left") > left)
        await until(lambda: streaming(server)["stream_slots"]["used"] == 0)
        connection.transport.resume_reading()
        with pytest.raises(ConnectionClosed):
            await read_all(connection)


@pytest.mark.parametrize("path", ["/tts/stream", pytest.param("/tts", marks=pytest.mark.slow)])
async def test_a_response_that_nobody_reads_is_broken_off(server: Server, path: str) -> None:
    before = streaming(server)
    with posted(server, path, {"text": LONG, "format": "wav"}) as (response, client):
        assert response.status == 200
        assert is_open(server, client)
        await until(lambda: streaming(server)["streams"]["stalled"] > before["streams"]["stalled"])
        await until(lambda: not is_open(server, client))
        with pytest.raises((HTTPException, ConnectionError)):
            response.read()
    after = streaming(server)
    assert (after["streams"]["active"], after["stream_slots"]["used"]) == (0, 0)
    assert after["batch_queue_stats"]["queue_status"]["current_size"] == 0
    assert f"broken off, the client took nothing for 6 s path={path}" in server.lines()
    metrics = get(server, "/metrics").text
    assert f"tts_connections_stalled_total {float(after['streams']['stalled'])}" in metrics
    assert "tts_streams_open 0.0" in metrics
    assert say(server, "Hello there.").status_code == 200


async def test_more_streams_than_allowed_are_refused(server: Server) -> None:
    body = {"text": LONG, "format": "pcm"}
    with posted(server, "/tts/stream", body), posted(server, "/tts/stream", body):
        async with agent(server), agent(server):
            assert streaming(server)["stream_slots"] == {"used": MAX_STREAMS, "limit": MAX_STREAMS}
            refused = stream(server, "Hello.")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_busy")
            assert refused.headers["retry-after"]
            with pytest.raises(InvalidStatus) as handshake:
                async with agent(server):
                    pass
            answer = handshake.value.response
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
            assert "MAX_STREAMS" in json.loads(answer.body)["error"]["message"]
            assert say(server, "A whole clip takes no place.").status_code == 200
    await until(lambda: streaming(server)["stream_slots"]["used"] == 0)
    assert stream(server, "Hello.").status_code == 200
    assert "Traceback" not in server.lines()
