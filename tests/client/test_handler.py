"""Programs that were written for the first version of this server, and its client."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.client import OptimizedKokoroHandler
from tests.audio_files import RATE, decode
from tests.client.scripted import ScriptedResponse, ScriptedServer, busy
from tests.servers import Server

STATISTICS = {f"{name}_first_byte_latency" for name in ("avg", "min", "max", "p95", "p99")}
SHORT = "Hello world"
LONG = "This is a text of medium length, which is long enough to be streamed without being asked for."


@pytest.fixture(autouse=True)
def audio_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_program_of_the_first_version(tiny_server: Server) -> None:
    handler = OptimizedKokoroHandler(
        api_url=tiny_server.url,
        voice="af_heart",
        max_workers=4,
        connection_pool_size=10,
        chunk_size=512,
        pre_warm_models=True,
    )
    ready: list[dict[str, Any]] = []
    called_back: list[tuple[str | None, str | None]] = []
    handler.on_audio_ready = ready.append
    try:
        assert any(handler.start_server() for _ in range(20))  # it waits for half a second, which may be too short
        assert handler.get_performance_stats() == {}
        for text in (SHORT, LONG):
            result = handler.synthesize_sync(text, use_gpu=True, optimize_for_latency=True)
            assert (result["success"], result["error"], result["format"]) == (True, None, "mp3")
            assert 0 < result["first_byte_latency"] <= result["latency"]
            assert len(decode(Path(result["audio_data"]).read_bytes(), "mp3")) > RATE / 4
            assert result["performance_stats"]["total_requests"] >= 1
        handler.synthesize_async(SHORT, callback=lambda path, error: called_back.append((path, error))).result(60)
        first, second = handler.synthesize_batch([LONG, SHORT], optimize_for_latency=True)
        assert Path(first["audio_data"]).stat().st_size > 2 * Path(second["audio_data"]).stat().st_size
        voices = {voice["name"] for voice in handler.get_voices()["voices"]}
    finally:
        handler.cleanup()
    assert ready[0]["latency"] > 0
    assert called_back == [(ready[0]["audio_path"], None)]
    stats = handler.get_performance_stats()
    assert set(stats) == STATISTICS | {"total_requests"}
    assert stats["total_requests"] == 5
    assert 0 < stats["min_first_byte_latency"] <= stats["avg_first_byte_latency"] <= stats["max_first_byte_latency"]
    assert stats["max_first_byte_latency"] < 60  # in seconds
    assert voices >= {"af_heart", "bf_emma"}


def test_what_it_asks_for(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse()] * 3
    handler = OptimizedKokoroHandler(server.url, "bf_emma", pre_warm_models=False)
    assert handler.synthesize(SHORT) is not None
    handler.set_voice("af_sky")
    handler.synthesize_sync(SHORT, optimize_for_latency=False, speed=1.5)
    handler.synthesize_sync(SHORT, "am_adam", use_streaming=True, format="wav")
    handler.cleanup()
    assert server.requests == [
        ("/tts", {"text": SHORT, "voice": "bf_emma", "format": "mp3", "optimize_for_latency": True}),
        ("/tts", {"text": SHORT, "voice": "af_sky", "format": "mp3", "speed": 1.5}),
        ("/tts/stream", {"text": SHORT, "voice": "am_adam", "format": "wav"}),
    ]


def test_chunks_are_called_back_as_they_come(server: ScriptedServer) -> None:
    content = bytes(range(250)) * 8
    server.responses += [ScriptedResponse(content=content), busy(status=400)]
    handler = OptimizedKokoroHandler(server.url, chunk_size=512, pre_warm_models=False)
    chunks: list[bytes] = []
    result = handler.synthesize_streaming(SHORT, chunk_callback=chunks.append)
    refused = handler.synthesize_streaming(SHORT)
    handler.cleanup()
    assert b"".join(chunks) == result["audio_data"] == content
    assert max(map(len, chunks)) <= 512
    assert (result["success"], result["size"]) == (True, 2000)
    assert 0 < result["first_byte_latency"] <= result["latency"]
    assert (refused["success"], refused["error"]) == (False, "come back later")


def test_a_failure_is_told_and_not_raised(audio_folder: Path) -> None:
    handler = OptimizedKokoroHandler("http://127.0.0.1:9")
    told: list[str] = []
    called_back: list[tuple[str | None, str | None]] = []
    handler.on_error = told.append
    assert not handler.is_server_running()
    assert not handler.start_server()
    assert handler.get_voices() == {}
    assert handler.synthesize(SHORT) is None
    handler.synthesize_async(SHORT, callback=lambda *result: called_back.append(result)).result(60)
    (result,) = handler.synthesize_batch([SHORT])
    handler.cleanup()
    assert (result["success"], result["audio_data"]) == (False, None)
    assert "cannot be reached" in result["error"]
    assert result["latency"] >= 0
    assert told == [result["error"]]
    assert called_back == [(None, result["error"])]
    assert list(audio_folder.iterdir()) == []


def test_a_text_that_cannot_be_sent_costs_only_itself(server: ScriptedServer) -> None:
    server.responses += [ScriptedResponse()] * 2
    handler = OptimizedKokoroHandler(server.url, pre_warm_models=False)
    told: list[str] = []
    handler.on_error = told.append
    results = handler.synthesize_batch(["One.", "\ud800", "Three."])
    assert [result["success"] for result in results] == [True, False, True]
    assert "JSON" in results[1]["error"]
    assert not handler.synthesize_sync("One.", speed=float("nan"))["success"]
    assert not handler.synthesize_async("\ud800").result()["success"]
    assert told == [results[1]["error"]]
    handler.cleanup()


def test_a_callback_that_fails_is_logged(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    server.responses.append(ScriptedResponse())
    handler = OptimizedKokoroHandler(server.url, pre_warm_models=False)
    handler.on_audio_ready = lambda result: result["no such key"]
    handler.synthesize_async(SHORT)
    handler.cleanup()
    assert "a callback failed" in caplog.text
