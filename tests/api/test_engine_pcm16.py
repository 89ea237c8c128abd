"""An engine that returns 16-bit samples beside its audio: they are sent where they fit, and nothing keeps them."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from kokoro_server.audio.wav import pcm16
from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import EngineLimits, Pcm16, Result, Row
from kokoro_server.server.app import create_app
from tests import backends, tiny
from tests.batching.doubles import until

ONE_PIECE = {"phonemes": "həlˈO wˈɜɹld."}
SEVERAL_PIECES = {"phonemes": "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, wˌIl sˈɛvən wˈɪzəɹdz wˈɑʧ. " * 2}
MODELS_ENDS = {"trim": False}
PATHS = ("/tts", "/tts/stream")
SENTINEL = 1234  # a value that no other conversion to 16 bits gives


class Pcm16Engine:
    """The tiny model, as loud as speech, and to the bit the same in any batch. The rows of a batch share one buffer,
    which the test watches.
    """

    device = "cpu"
    limits = EngineLimits(510, 8, 100_000)

    def __init__(self, *, honest: bool) -> None:
        self._engine = backends.tiny("torch")
        self._honest = honest
        self.buffers: list[weakref.ref[Any]] = []

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        synthesized = [self._engine.synthesize([row])[0] for row in rows]
        buffer = np.concatenate([result.audio * (0.5 / np.abs(result.audio).max()) for result in synthesized])
        self.buffers.append(weakref.ref(buffer))
        results, start = [], 0
        for result in synthesized:
            audio = buffer[start : start + len(result.audio)]
            start += len(audio)
            samples = np.frombuffer(pcm16(audio), np.int16) if self._honest else np.full(len(audio), SENTINEL, np.int16)
            results.append(Result(audio, result.durations, Pcm16(samples, float(np.abs(audio).max()))))
        return results


def make_app(engine: Pcm16Engine, folder: Path) -> FastAPI:
    return create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9", "MAX_TOKENS_PER_CHUNK": "100"}, dotenv=None),
        load=lambda _settings: LoadedModel((engine,), ModelFacts(tiny.load(folder).facts.voices, "fp32", "path")),
    )


@asynccontextmanager
async def served(engine: Pcm16Engine, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(engine, folder)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        yield client


async def fetch_audio(client: httpx.AsyncClient, path: str, body: dict[str, Any], **options: Any) -> bytes:
    response = await client.post(path, json={**body, "format": "pcm", **options})
    assert response.status_code == 200, response.text
    return response.content


@pytest.mark.parametrize("honest", [True, False])
async def test_a_single_piece_is_sent_as_the_engine_made_it(tmp_path: Path, honest: bool) -> None:
    async with served(Pcm16Engine(honest=honest), tmp_path) as client:
        for path in PATHS:
            sent = np.frombuffer(await fetch_audio(client, path, ONE_PIECE | MODELS_ENDS), np.int16)
            exact = np.frombuffer(
                await fetch_audio(client, path, ONE_PIECE | MODELS_ENDS, sample_format="pcm_f32le"), np.float32
            )
            expected = np.frombuffer(pcm16(exact), np.int16) if honest else np.full(len(exact), SENTINEL)
            assert np.array_equal(sent, expected)


async def test_of_several_pieces_only_the_seams_are_made_anew(tmp_path: Path) -> None:
    for honest in (True, False):
        async with served(Pcm16Engine(honest=honest), tmp_path) as client:
            for path in PATHS:
                sent = np.frombuffer(await fetch_audio(client, path, SEVERAL_PIECES | MODELS_ENDS), np.int16)
                exact = await fetch_audio(client, path, SEVERAL_PIECES | MODELS_ENDS, sample_format="pcm_f32le")
                if honest:
                    assert sent.tobytes() == pcm16(np.frombuffer(exact, np.float32))
                else:
                    assert 0.5 < np.mean(sent == SENTINEL) < 1


async def test_not_where_the_samples_need_more_processing(tmp_path: Path) -> None:
    async with served(Pcm16Engine(honest=False), tmp_path) as client:
        for path in PATHS:
            for body in (ONE_PIECE | {"volume": -6.0}, SEVERAL_PIECES | {"sample_rate": 16_000}):
                sent = await fetch_audio(client, path, body)
                exact = np.frombuffer(await fetch_audio(client, path, body, sample_format="pcm_f32le"), np.float32)
                assert sent == pcm16(exact)


async def test_nothing_keeps_a_batch_in_memory_afterwards(tmp_path: Path) -> None:
    engine = Pcm16Engine(honest=True)
    async with served(engine, tmp_path) as client:
        for path in PATHS:
            for body in (ONE_PIECE, SEVERAL_PIECES, ONE_PIECE | {"format": "mp3"}, SEVERAL_PIECES | {"format": "mp3"}):
                engine.buffers.clear()
                await client.post(path, json=body)
                assert engine.buffers
                await until(lambda: gc.collect() >= 0 and all(buffer() is None for buffer in engine.buffers))


@pytest.mark.parametrize("body", [ONE_PIECE, SEVERAL_PIECES], ids=["one piece", "several"])
@pytest.mark.parametrize("audio", ["pcm", "mp3"])
async def test_a_stream_that_nobody_reads_keeps_no_batch_in_memory(
    tmp_path: Path, body: dict[str, Any], audio: str
) -> None:
    engine = Pcm16Engine(honest=True)
    app = make_app(engine, tmp_path)
    stopped, read_on = asyncio.Event(), asyncio.Event()
    content = json.dumps({**body, "format": audio}).encode()
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()  # the client stays
        return messages.pop()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            stopped.set()
            await read_on.wait()

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": "/tts/stream", "raw_path": b"/tts/stream", "query_string": b"", "root_path": ""}
    scope |= {"headers": [(b"content-type", b"application/json")], "client": ("127.0.0.1", 1), "server": ("test", 80)}
    async with app.router.lifespan_context(app):
        answer = asyncio.create_task(app(scope, receive, send))
        await stopped.wait()
        queue = app.state.services.queue
        await until(lambda: not len(queue._waiting) and not queue._devices.running_rows, patience=60)
        await until(lambda: gc.collect() >= 0 and all(buffer() is None for buffer in engine.buffers), patience=60)
        assert engine.buffers
        read_on.set()
        await answer
