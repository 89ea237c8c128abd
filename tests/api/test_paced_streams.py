"""Streams and whole clips of an engine that has measured itself to be slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import EngineLimits, Result, Row
from kokoro_server.engine.speed import BestSpeed
from kokoro_server.server.app import create_app
from tests import backends, tiny
from tests.servers import assert_same_audio

BODY = {
    "phonemes": "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps, ˈOvəɹ ðə lˈAzi dˈɔɡ, wˌIl sˈɛvən wˈɪzəɹdz kwˈIətli wˈɑʧ fɹʌm ðə hˈɪl. "
    * 3,
    "format": "pcm",
    "sample_format": "pcm_f32le",
}


class SlowEngine:
    """The tiny model, which reports that it is slow."""

    device = "cpu"

    def __init__(self, measured: float) -> None:
        self._measured = measured
        self._engine = backends.tiny("torch")
        self.real_time_factor: float | None = None
        self.present_factor: float | None = None

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    def warmup(self) -> None: ...

    def measure(self) -> None:
        self.real_time_factor = self.present_factor = self._measured

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        return self._engine.synthesize(rows)


@asynccontextmanager
async def served(folder: Path, measured: float = 0.4, **environ: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9", **environ}, dotenv=None),
        load=lambda _settings: LoadedModel(
            (SlowEngine(measured),),
            ModelFacts(tiny.load(folder).facts.voices, "fp32", "path"),
            best_speed=BestSpeed.of(folder, "tiny", 1),
        ),
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        yield client


async def test_only_streams_are_split_by_the_engines_speed(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        health = (await client.get("/health/streaming")).json()
        whole, streamed = [await client.post(path, json=BODY) for path in ("/tts", "/tts/stream")]
        short_start = await client.post("/tts", json=BODY | {"optimize_for_latency": True})
    assert whole.status_code == streamed.status_code == 200
    assert streamed.headers["x-bypass-chunks"] == "100"
    assert streamed.headers["x-streaming-mode"] == health["streaming_mode"] == "bypass-first-100-chunks"
    assert health["bypass_chunks_config"] == 100
    assert health["pace"] == {
        "real_time_factor": 0.5,
        "keeps_up_with_playback": True,
        "first_chunk_tokens": 27,
        "first_chunk_seconds": 1.18,
    }
    async with served(tmp_path, FIRST_CHUNK_MAX_TOKENS="50") as client:
        plain, alike = [await client.post(path, json=BODY) for path in ("/tts", "/tts/stream")]
    assert alike.headers["x-streaming-mode"] == "bypass-first-2-chunks"
    assert_same_audio(alike.content, short_start.content)
    assert_same_audio(plain.content, short_start.content)
    assert len({len(answer.content) for answer in (whole, streamed, short_start)}) == 3


async def test_a_number_that_was_set_is_kept_to(tmp_path: Path) -> None:
    async with served(tmp_path, STREAMING_BYPASS_CHUNKS="3") as client:
        streamed = await client.post("/tts/stream", json=BODY)
        health = (await client.get("/health/streaming")).json()
    assert (streamed.headers["x-bypass-chunks"], health["bypass_chunks_config"]) == ("3", 3)
    assert streamed.headers["x-streaming-mode"] == health["streaming_mode"] == "bypass-first-3-chunks"


async def test_what_is_measured_at_the_start_decides_for_good_how_a_stream_is_cut(tmp_path: Path) -> None:
    """The tiny model is much faster than this, as the device's state shows in the end."""
    sentence = {"phonemes": BODY["phonemes"].partition(".")[0] + "."}

    async with served(tmp_path, measured=20.0) as client:
        before = await client.post("/tts/stream", json=BODY)
        async with asyncio.timeout(60):
            while (device := (await client.get("/health/batching")).json()["devices"][0])["real_time_factor"] > 3:
                assert (await client.post("/tts", json=sentence)).status_code == 200
        health = (await client.get("/health/streaming")).json()
        after = await client.post("/tts/stream", json=BODY)
    assert (health["pace"]["real_time_factor"], device["real_time_factor"] <= 3) == (1.25, True)
    assert len(before.content) == len(after.content)  # torch rounds rows differently that share a pass


async def test_a_server_that_starts_beside_other_work_cuts_as_one_that_started_on_a_quiet_machine(
    tmp_path: Path,
) -> None:
    answers = []
    for measured in (0.31, 1.11):
        async with served(tmp_path, measured=measured) as client:
            health = (await client.get("/health/streaming")).json()
            answers.append((health["pace"], len((await client.post("/tts/stream", json=BODY)).content)))
    assert answers[0] == answers[1]
