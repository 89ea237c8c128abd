"""Both clients against a real server with the tiny model."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import soundfile

from kokoro_server.client import (
    AsyncKokoroClient,
    AudioClip,
    BrokenOff,
    ClipFailed,
    KokoroClient,
    MemoryCache,
    ServerError,
    Timeouts,
)
from tests.audio_files import RATE, decode
from tests.servers import Server
from tests.services.faulty import LATE_FAILURE

SHORT = "Hello there."
LONG = "The quick brown fox jumps over the lazy dog. " * 6


def test_short_and_long_texts_give_the_same_kind_of_clip(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        for text in (SHORT, LONG):
            clip = client.synthesize(text, "am_adam", speed=1.2)
            info = soundfile.info(io.BytesIO(clip.content))
            assert clip.voice == "am_adam"
            assert 0 < clip.latency.first_byte <= clip.latency.total
            assert clip.duration == pytest.approx(info.frames / RATE, abs=1e-3)


def test_a_streamed_clip_is_the_clip_that_was_not_streamed(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        streamed = client.synthesize(LONG, use_streaming=True)
        whole = client.synthesize(LONG, use_streaming=False, optimize_for_latency=True)  # cut as a stream is
    assert len(streamed.content) == len(whole.content)
    assert streamed.content[:44] == whole.content[:44]
    assert streamed.duration == pytest.approx(whole.duration, abs=1e-3)


def test_a_short_clip_may_overtake_others(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        assert client.synthesize(SHORT, optimize_for_latency=True) == client.synthesize(SHORT)


def test_floats_at_another_rate_have_the_right_duration(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        plain = client.synthesize(LONG)
        other = client.synthesize(LONG, format="pcm", sample_rate=48_000, sample_format="pcm_f32le")
    assert other.duration == pytest.approx(plain.duration, abs=0.01)


def test_a_stream_begins_before_it_ends_and_decodes(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        chunks = list(client.stream(LONG, format="flac"))
        assert len(chunks) > 1
        assert len(decode(b"".join(chunks), "flac")) > RATE


def test_an_abandoned_stream_frees_its_connection(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        for _ in range(3):
            chunks = client.stream(LONG, format="pcm")
            assert next(chunks)
            chunks.close()  # type: ignore[attr-defined]
        assert client.synthesize(SHORT).duration


def test_captions_follow_the_text(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        chunks = list(client.stream_captioned(LONG, format="pcm"))
        clip = client.captioned(LONG, format="pcm")
        assert client.get_performance_stats().count == 1
    words = [word for chunk in chunks for word in chunk.words]
    assert [word.text for word in words] == LONG.replace(".", "").split()
    assert all(LONG[word.char_start : word.char_end] == word.text for word in words)
    assert sum(len(chunk.audio) for chunk in chunks) / 2 / RATE == pytest.approx(words[-1].end, abs=1.0)
    assert [word.text for word in clip.words] == [word.text for word in words]
    assert len(clip.audio) / 2 / RATE == pytest.approx(clip.duration, abs=0.01)
    assert clip.skipped == 0


def test_a_batch_keeps_its_order_and_its_errors(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        first, second, third = client.synthesize_batch(
            [SHORT, {"text": SHORT, "speed": 99}, {"text": SHORT, "format": "mp3", "voice": "bf_emma"}]
        )
    assert isinstance(first, AudioClip)
    assert first.format == "wav"
    assert isinstance(second, ClipFailed)
    assert second.code == "invalid_input"
    assert "speed" in second.message
    assert isinstance(third, AudioClip)
    assert first.latency == third.latency  # they came together
    assert 0 < first.latency.first_byte <= first.latency.total
    assert (third.format, third.voice) == ("mp3", "bf_emma")
    assert len(decode(third.content, "mp3")) / RATE == pytest.approx(third.duration, abs=0.1)


def test_errors_carry_what_the_server_said(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        with pytest.raises(ServerError) as refused:
            client.synthesize(SHORT, "af_hart")
        assert (refused.value.status, refused.value.code, refused.value.field) == (400, "unknown_voice", "voice")
        assert "af_heart" in refused.value.message
        assert refused.value.request_id
        with pytest.raises(ServerError, match="text is empty"):
            list(client.stream(""))


def test_what_the_server_knows(tiny_server: Server) -> None:
    patient = Timeouts(health=30)
    with KokoroClient(tiny_server.url, timeouts=patient) as client:
        assert client.warmup().result() is True
        assert client.health()["status"] == "ok"
        emma = next(voice for voice in client.voices() if voice.name == "bf_emma")
        assert (emma.title, emma.language, emma.gender) == ("Emma", "en-GB", "female")


def test_performance_is_recorded_and_forgotten(tiny_server: Server) -> None:
    with KokoroClient(tiny_server.url) as client:
        client.synthesize(SHORT)
        client.synthesize(LONG)
        stats = client.get_performance_stats()
        assert stats.count == stats.total.count == stats.first_byte.count == 2
        assert stats.synthesis.count == stats.network.count == 1
        assert 0 < stats.total.min <= stats.total.avg <= stats.total.p95 <= stats.total.p99 <= stats.total.max
        client.reset_performance_stats()
        assert client.get_performance_stats().count == 0


def test_background_work_calls_back(tiny_server: Server, tmp_path: Path) -> None:
    ready: list[AudioClip] = []
    failed: list[str] = []
    with KokoroClient(tiny_server.url) as client:
        good = client.synthesize_async(SHORT, on_ready=ready.append)
        bad = client.synthesize_async(SHORT, "nobody", on_error=lambda error: failed.append(error.code))
        assert good.result(60) == ready[0]
        with pytest.raises(ServerError):
            bad.result(60)
    assert failed == ["unknown_voice"]


def test_a_stream_that_breaks_off_raises(faulty: Server) -> None:
    with KokoroClient(faulty.url) as client:
        text = "It was late. " + LONG
        received: list[bytes] = []
        with pytest.raises(BrokenOff):
            received.extend(client.stream(text, speed=LATE_FAILURE, format="pcm"))
        assert received
        with pytest.raises(BrokenOff):
            client.synthesize(text, speed=LATE_FAILURE)
        with pytest.raises(BrokenOff):
            list(client.stream_captioned(text, speed=LATE_FAILURE))


async def test_asyncio_client(tiny_server: Server) -> None:
    ready: list[AudioClip] = []
    async with AsyncKokoroClient(tiny_server.url, cache=MemoryCache(), timeouts=Timeouts(health=30)) as client:
        assert await client.warmup()
        assert (await client.health())["status"] == "ok"
        assert {voice.name for voice in await client.voices()} >= {"af_heart", "bf_emma"}
        clip = await client.synthesize_async(LONG, "af_sky", on_ready=ready.append)
        assert ready == [clip]
        assert await client.synthesize(LONG, "af_sky") == clip
        chunks = [chunk async for chunk in client.stream(LONG, "af_sky", format="pcm")]
        assert len(b"".join(chunks)) == len(clip.content) - 44
        words = [word async for chunk in client.stream_captioned(SHORT) for word in chunk.words]
        assert [word.text for word in words] == ["Hello", "there"]
        good, bad = await client.synthesize_batch([SHORT, {"text": ""}])
        assert isinstance(good, AudioClip)
        assert isinstance(bad, ClipFailed)
        with pytest.raises(ServerError, match="no voice"):
            await client.synthesize(SHORT, "nobody")
        async for _ in client.stream(LONG):
            break
        assert client.get_performance_stats().count == 3
