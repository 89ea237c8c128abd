"""Rows of the fault matrix: requests that are no requests, too slow or too large."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from tests.faults.checks import PATIENCE, Fault, injected
from tests.servers import Server

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MEGABYTE = b"a" * 1_000_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("malformed JSON", b'{"text": "Hello'),
        ("bad UTF-8", b'{"text": "\xff\xfe\xc3"}'),
        ("no JSON object", b"[" * 100_000),
    ],
)
async def test_what_is_no_request_is_refused(faulty: Server, name: str, content: bytes) -> None:
    async with injected(faulty, name, "8 such bodies on each of five paths") as fault:
        for path in ("/tts", "/tts/stream", "/tts/batch", "/tts/captioned", "/v1/audio/speech"):
            answers = await asyncio.gather(*(send(fault, path, content) for _ in range(8)))
            assert set(answers) <= {400, 422}


async def send(fault: Fault, path: str, content: bytes) -> int:
    fault.sent += 1
    answer = await fault.client.post(f"{fault.server.url}{path}", content=content, headers=JSON)
    assert answer.json()["error"]["message"]
    fault.answered += 1
    return answer.status_code


async def connected(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(server.url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def test_truncated_body(faulty: Server) -> None:
    before = faulty.lines().count("Exception in ASGI")
    async with injected(faulty, "truncated body", "8 clients leave after half of the body they announced") as fault:
        for _ in range(8):
            _, writer = await connected(faulty)
            writer.write(HEAD + b'Content-Length: 1000\r\n\r\n{"text": "Hel')
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            fault.sent, fault.abandoned = fault.sent + 1, fault.abandoned + 1
    assert faulty.lines().count("Exception in ASGI") == before


async def test_slow_headers(faulty: Server) -> None:
    """They hold up nobody, however long they take."""
    async with injected(faulty, "slow headers", "20 connections that send a byte now and then") as fault:
        connections = [await connected(faulty) for _ in range(20)]
        for start in range(0, len(HEAD), 30):
            for _, writer in connections:
                writer.write(HEAD[start : start + 30])
            assert (await fault.post(text="Hello.")).status_code == 200
        for _, writer in connections:
            writer.close()
        fault.sent, fault.abandoned = fault.sent + 20, fault.abandoned + 20


async def test_a_body_of_200_megabytes(faulty: Server) -> None:
    async with injected(faulty, "200 MB body", "announced, and in chunks without a length") as fault:
        assert await early_answer(fault, HEAD + b"Content-Length: 200000000\r\n\r\n", b"%s") == 413
        assert await early_answer(fault, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"f4240\r\n%s\r\n") == 413


async def early_answer(fault: Fault, head: bytes, framing: bytes) -> int:
    """The status of a request whose body the server does not read to its end."""
    reader, writer = await connected(fault.server)
    fault.sent += 1
    status = asyncio.create_task(reader.readline())
    try:
        writer.write(head)
        for _ in range(200):
            writer.write(framing % MEGABYTE)
            async with asyncio.timeout(PATIENCE):
                await writer.drain()
            if status.done():
                break
    except ConnectionError:
        pass  # the server has answered and closed
    found = int((await status).split()[1])
    fault.answered += 1
    writer.close()
    return found


async def test_a_text_of_ten_million_characters(faulty: Server) -> None:
    async with injected(faulty, "10-million-character text", "in `text`, in `phonemes` and in `input`") as fault:
        for path, field in (("/tts", "text"), ("/tts/stream", "phonemes"), ("/v1/audio/speech", "input")):
            answer = await fault.post(path, **{field: "a" * (10_000_000 - 100)})  # a body as large as may be
            assert answer.status_code in (400, 413, 422)
            assert len(answer.content) < 1000
