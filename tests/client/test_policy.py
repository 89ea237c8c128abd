"""When the clients try again, give up, or do not ask at all: against a server that misbehaves on cue."""

from __future__ import annotations

import asyncio
import io
import zipfile
from pathlib import Path

import pytest

from kokoro_server.client import (
    AsyncKokoroClient,
    AudioClip,
    BrokenOff,
    Cache,
    CaptionedChunk,
    FolderCache,
    KokoroClient,
    Latency,
    MemoryCache,
    Retries,
    ServerError,
    TimedOut,
    Timeouts,
    Unreachable,
)
from kokoro_server.client.performance import summary
from tests.client.scripted import ScriptedResponse, ScriptedServer, busy

SHORT = "Hello there."


def _empty_batch() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", "[]")
    return file.getvalue()


EMPTY_BATCH = _empty_batch()


def paths(server: ScriptedServer) -> list[str]:
    return [path for path, _ in server.requests]


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(server: ScriptedServer, status: int) -> None:
    server.responses += [busy(status=status), busy(status=status), ScriptedResponse()]
    with KokoroClient(server.url) as client:
        assert client.synthesize(SHORT).content == b"RIFF"
    assert paths(server) == ["/tts"] * 3


def test_a_busy_stream_is_asked_again(server: ScriptedServer) -> None:
    server.responses += [busy(), ScriptedResponse(content=b"audio")]
    with KokoroClient(server.url) as client:
        assert b"".join(client.stream(SHORT)) == b"audio"


def test_the_tries_are_bounded(server: ScriptedServer) -> None:
    server.responses += [busy()] * 3
    with KokoroClient(server.url) as client, pytest.raises(ServerError, match="come back later") as refused:
        client.synthesize(SHORT)
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "too_busy", 0)
    assert len(server.requests) == 3


def test_a_server_that_asks_for_a_long_wait_is_not_asked_again(server: ScriptedServer) -> None:
    server.responses += [busy(retry_after="60")]
    with KokoroClient(server.url) as client, pytest.raises(ServerError) as refused:
        client.synthesize(SHORT)
    assert refused.value.retry_after == 60
    assert len(server.requests) == 1


def test_without_a_hint_the_waits_grow() -> None:
    retries = Retries(tries=4)
    error = ServerError("busy", code="too_busy", status=503)
    assert [retries.delay(error, tried) for tried in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]


@pytest.mark.parametrize("status", [400, 413, 422, 500, 504])
def test_other_errors_are_not_tried_again(server: ScriptedServer, status: int) -> None:
    server.responses += [busy(status=status)]
    with KokoroClient(server.url) as client, pytest.raises(ServerError):
        client.synthesize(SHORT)
    assert len(server.requests) == 1


@pytest.mark.parametrize("use_streaming", [True, False])
def test_nothing_is_tried_again_once_audio_has_begun(server: ScriptedServer, use_streaming: bool) -> None:
    server.responses += [ScriptedResponse(content=b"the beginning", broken_off=True), ScriptedResponse()]
    with KokoroClient(server.url) as client:
        with pytest.raises(BrokenOff):
            client.synthesize(SHORT, use_streaming=use_streaming)
        assert client.get_performance_stats().count == 0
    assert len(server.requests) == 1


def test_a_response_of_another_kind_of_server_is_reported_as_such(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse(502, content=b"<html>bad gateway</html>"), ScriptedResponse(content=b"hello")]
    with KokoroClient(server.url) as client:
        with pytest.raises(ServerError, match="is it a Kokoro Server") as refused:
            client.synthesize(SHORT)
        assert (refused.value.status, refused.value.code) == (502, "unexpected_answer")
        with pytest.raises(ServerError, match="is it a Kokoro Server"):
            client.health()


def test_each_kind_of_request_has_its_own_timeout(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse(delay=0.5)] * 3
    timeouts = Timeouts(health=0.1, synthesis=0.1, stream=0.1)
    with KokoroClient(server.url, timeouts=timeouts) as client:
        with pytest.raises(TimedOut):
            client.health()
        with pytest.raises(TimedOut):
            client.synthesize(SHORT)
        with pytest.raises(TimedOut):
            next(client.stream(SHORT))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "127.0.0.1:8880", "http://[bad"])
def test_a_server_that_is_not_there(url: str) -> None:
    with KokoroClient(url) as client:
        with pytest.raises(Unreachable) as failed:
            client.synthesize(SHORT)
        assert url in failed.value.message
        assert client.warmup().result() is False


@pytest.mark.parametrize(
    ("text", "use_streaming", "path"),
    [
        ("x" * 50, None, "/tts"),
        ("x" * 51, None, "/tts/stream"),
        ("x" * 51, False, "/tts"),
        ("x", True, "/tts/stream"),
    ],
)
def test_long_texts_are_streamed(server: ScriptedServer, text: str, use_streaming: bool | None, path: str) -> None:
    server.responses.append(ScriptedResponse())
    with KokoroClient(server.url) as client:
        client.synthesize(text, use_streaming=use_streaming)
    assert paths(server) == [path]


def test_only_what_was_asked_for_is_sent(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse(), ScriptedResponse()]
    with KokoroClient(server.url) as client:
        client.synthesize(SHORT, speed=1.5)
        client.synthesize(SHORT, optimize_for_latency=True)
    assert server.requests == [
        ("/tts", {"text": SHORT, "speed": 1.5}),
        ("/tts", {"text": SHORT, "optimize_for_latency": True}),
    ]


def test_a_client_has_a_voice_of_its_own(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse()] * 2 + [ScriptedResponse(content=EMPTY_BATCH)]
    with KokoroClient(server.url, voice="bf_emma") as client:
        client.synthesize(SHORT)
        client.synthesize(SHORT, "af_sky")
        client.synthesize_batch(
            [SHORT, {"text": SHORT, "voice": "af_sky", "optimize_for_latency": False}], optimize_for_latency=True
        )
    assert [body["voice"] for _, body in server.requests[:2]] == ["bf_emma", "af_sky"]
    assert server.requests[2][1]["requests"] == [
        {"text": SHORT, "voice": "bf_emma", "optimize_for_latency": True},
        {"text": SHORT, "voice": "af_sky", "optimize_for_latency": False},
    ]


async def test_asyncio_client_has_a_voice_of_its_own(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse(), ScriptedResponse(content=EMPTY_BATCH)]
    async with AsyncKokoroClient(server.url, voice="bf_emma") as client:
        await client.synthesize(SHORT)
        await client.synthesize_batch([SHORT], optimize_for_latency=True)
    assert server.requests[0][1]["voice"] == "bf_emma"
    assert server.requests[1][1]["requests"] == [{"text": SHORT, "voice": "bf_emma", "optimize_for_latency": True}]


async def test_chunks_are_as_large_as_was_asked_for(server: ScriptedServer) -> None:
    content = bytes(range(250)) * 4
    server.responses += [ScriptedResponse(content=content)] * 2
    with KokoroClient(server.url, chunk_size=300) as client:
        chunks = list(client.stream(SHORT))
    async with AsyncKokoroClient(server.url, chunk_size=300) as client:
        alike = [chunk async for chunk in client.stream(SHORT)]
    for received in (chunks, alike):
        assert b"".join(received) == content
        assert len(received) >= 4
        assert max(map(len, received)) <= 300


async def test_no_more_workers_than_were_asked_for(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse(delay=0.3)] * 2
    async with AsyncKokoroClient(server.url, workers=1) as client:
        first, second = client.synthesize_async(SHORT), client.synthesize_async(SHORT)
        await first
        assert not second.done()
        await second


@pytest.mark.parametrize("name", ["workers", "pool_size", "chunk_size"])
@pytest.mark.parametrize("kind", [KokoroClient, AsyncKokoroClient])
def test_settings_that_make_no_sense_are_refused(kind: type[KokoroClient | AsyncKokoroClient], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        kind("http://127.0.0.1:9", **{name: 0})  # type: ignore[arg-type]


async def test_asyncio_client_tries_again_and_gives_up_likewise(server: ScriptedServer) -> None:
    server.responses += [
        busy(),
        ScriptedResponse(),
        ScriptedResponse(content=b"the beginning", broken_off=True),
        ScriptedResponse(delay=0.5),
    ]
    async with AsyncKokoroClient(server.url, timeouts=Timeouts(stream=0.2)) as client:
        assert (await client.synthesize(SHORT)).content == b"RIFF"
        with pytest.raises(BrokenOff):
            await client.synthesize(SHORT)
        with pytest.raises(TimedOut):
            [chunk async for chunk in client.stream(SHORT)]
    async with AsyncKokoroClient("http://127.0.0.1:9") as client:
        with pytest.raises(Unreachable):
            await client.synthesize(SHORT)
        assert await client.warmup() is False


async def test_closing_the_asyncio_client_cancels_what_is_under_way(server: ScriptedServer) -> None:
    server.responses.append(ScriptedResponse(delay=0.5))
    async with AsyncKokoroClient(server.url) as client:
        task = client.synthesize_async(SHORT)
        assert await asyncio.to_thread(server.got_request.wait, 60)
    assert task.cancelled()


@pytest.fixture(params=["memory", "folder"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    return MemoryCache(2_500) if request.param == "memory" else FolderCache(tmp_path / "clips", 2_500)


def clip(content: bytes) -> AudioClip:
    return AudioClip(content, "wav", "af_heart", 1.25)


def test_a_cached_clip_is_not_asked_for_again(server: ScriptedServer, cache: Cache) -> None:
    server.responses += [ScriptedResponse(content=b"one\ntwo"), ScriptedResponse(content=b"other")]
    with KokoroClient(server.url, cache=cache) as client:
        first = client.synthesize(SHORT)
        assert client.synthesize(SHORT) == first
        assert client.synthesize(SHORT, optimize_for_latency=True) == first
        assert client.synthesize(SHORT, speed=1.1) != first
    assert len(server.requests) == 2


def test_a_clip_tells_how_long_it_took(server: ScriptedServer, cache: Cache) -> None:
    server.responses += [ScriptedResponse(delay=0.1)]
    with KokoroClient(server.url, cache=cache) as client:
        asked, kept = client.synthesize(SHORT), client.synthesize(SHORT)
    assert 0.1 <= asked.latency.first_byte <= asked.latency.total
    assert kept == asked
    assert kept.latency != asked.latency


def test_a_clip_is_printed_without_its_bytes() -> None:
    shown = str(AudioClip(bytes(100_000), "wav", "af_heart", 1.25, Latency(0.1, 0.25)))
    assert shown == ("<AudioClip wav voice=af_heart duration=1.25 s bytes=100000 first_byte=0.100 s total=0.250 s>")
    assert "duration=unknown" in repr(AudioClip(b"", "mp3", "af_heart", None))
    assert len(repr(CaptionedChunk(bytes(100_000), ()))) < 100


def test_the_cache_keeps_to_its_size(cache: Cache) -> None:
    for name in ("a", "b", "c"):
        cache.put(name, clip(name.encode() * 1_000))
    assert cache.get("a") is None
    assert cache.get("c") == clip(b"c" * 1_000)
    cache.put("huge", clip(b"x" * 3_000))
    assert cache.get("huge") is None


def test_a_damaged_file_of_the_cache_is_as_good_as_none(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path)
    cache.put("a", clip(b"audio"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"rubbish")
    assert cache.get("a") is None


def test_percentiles() -> None:
    result = summary([float(value) for value in range(1, 101)])
    assert (result.count, result.avg, result.min, result.max, result.p95, result.p99) == (100, 50.5, 1, 100, 95, 99)
    assert summary([]).count == 0
