"""Answers that no Kokoro Server sends: every failure is a ClientError, and no page is taken for audio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kokoro_server.client import AsyncKokoroClient, ClientError, KokoroClient, MemoryCache, OptimizedKokoroHandler
from tests.client.scripted import ScriptedResponse, ScriptedServer

PAGE = ScriptedResponse(headers={"Content-Type": "text/html"}, content=b"<h1>Log in</h1>")
DEEP = b"[" * 100_000

CALLS: dict[str, tuple[Callable[[KokoroClient], Any], Callable[[AsyncKokoroClient], Any]]] = {
    "voices": (lambda client: client.voices(), lambda client: client.voices()),
    "reading": (lambda client: client.reading("Hi."), lambda client: client.reading("Hi.")),
    "captioned": (lambda client: client.captioned("Hi."), lambda client: client.captioned("Hi.")),
    "batch": (lambda client: client.synthesize_batch(["Hi."]), lambda client: client.synthesize_batch(["Hi."])),
    "events": (
        lambda client: list(client.stream_captioned("Hi.")),
        lambda client: _all(client.stream_captioned("Hi.")),
    ),
}


async def _all(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"[]\n", b"null\n", b'{"voices": 5, "type": 1}\n', b"<html>\n", DEEP + b"\n", b"PK\5\6"]
)
async def test_an_answer_of_another_program_is_a_client_error(
    server: ScriptedServer, call: str, content: bytes
) -> None:
    blocking, coroutine = CALLS[call]
    server.responses += [ScriptedResponse(content=content)] * 2
    with KokoroClient(server.url) as client, pytest.raises(ClientError):
        await asyncio.to_thread(blocking, client)
    async with AsyncKokoroClient(server.url) as asking:
        with pytest.raises(ClientError):
            await coroutine(asking)


@pytest.mark.parametrize("use_streaming", [False, True])
async def test_a_page_in_place_of_audio_is_neither_returned_nor_cached(
    server: ScriptedServer, use_streaming: bool
) -> None:
    server.responses += [PAGE, PAGE, ScriptedResponse()]
    cache = MemoryCache()
    async with AsyncKokoroClient(server.url, cache=cache) as asking:
        with pytest.raises(ClientError, match="text/html"):
            await asking.synthesize("Hi.", use_streaming=use_streaming)
    with KokoroClient(server.url, cache=cache) as client:
        with pytest.raises(ClientError, match="text/html"):
            client.synthesize("Hi.", use_streaming=use_streaming)
        assert client.synthesize("Hi.", use_streaming=use_streaming).content == b"RIFF"


def test_a_page_in_place_of_a_stream(server: ScriptedServer) -> None:
    server.responses.append(PAGE)
    with KokoroClient(server.url) as client, pytest.raises(ClientError, match="text/html"):
        next(client.stream("Hi."))


def test_headers_that_are_no_numbers_count_as_absent(server: ScriptedServer) -> None:
    names = ("X-Queue-Time-Ms", "X-Inference-Time-Ms", "X-Audio-Duration")
    server.responses.append(ScriptedResponse(headers=dict.fromkeys(names, "soon")))
    with KokoroClient(server.url) as client:
        assert client.synthesize("Hi.").content == b"RIFF"
        assert client.get_performance_stats().synthesis.count == 0


def test_an_event_without_end_is_not_collected(server: ScriptedServer) -> None:
    server.responses.append(ScriptedResponse(content=bytes(20 << 20)))
    with KokoroClient(server.url) as client, pytest.raises(ClientError, match="more than"):
        list(client.stream_captioned("Hi."))


def test_the_handler_of_the_first_version_does_not_raise(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse(content=b"{}"), PAGE]
    handler = OptimizedKokoroHandler(server.url, pre_warm_models=False)
    assert handler.get_voices() == {}
    assert handler.synthesize_sync("Hi.")["success"] is False
    handler.cleanup()
