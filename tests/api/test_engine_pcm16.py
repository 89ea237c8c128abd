"""An engine that gives 16-bit samples beside its audio: they are sent where they are wanted, and held by nobody."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from kokoro_server.app import create_app
from kokoro_server.audio.wav import pcm16
from kokoro_server.config import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import Limits, Pcm16, Result, Row
from tests import backends, tiny
from tests.batching.doubles import until

ONE = {"phonemes": "həlˈO wˈɜɹld."}
SEVERAL = {"phonemes": "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, wˌIl sˈɛvən wˈɪzəɹdz wˈɑʧ. " * 5}
PATHS = ("/tts", "/tts/stream")
MARK = 1234  # a value that no other way of making the samples gives


class Prepared:
    """The tiny model at a level that speech has. The rows of a batch share one buffer, of which the test knows."""

    device = "cpu"
    limits = Limits(510, 8, 100_000)

    def __init__(self, *, honest: bool) -> None:
        self._engine = backends.tiny("torch")
        self._honest = honest
        self.buffers: list[weakref.ref[Any]] = []

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        made = self._engine.synthesize(rows)
        buffer = np.concatenate([result.audio for result in made])
        buffer *= 0.5 / np.abs(buffer).max()
        self.buffers.append(weakref.ref(buffer))
        results, start = [], 0
        for result in made:
            audio = buffer[start : start + len(result.audio)]
            start += len(audio)
            samples = np.frombuffer(pcm16(audio), np.int16) if self._honest else np.full(len(audio), MARK, np.int16)
            results.append(Result(audio, result.durations, Pcm16(samples, float(np.abs(audio).max()))))
        return results


@asynccontextmanager
async def served(engine: Prepared, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: LoadedModel((engine,), tiny.load(folder).voices, "fp32", "path"),
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        yield client


async def asked(client: httpx.AsyncClient, path: str, said: dict[str, Any], **options: Any) -> bytes:
    answer = await client.post(path, json={**said, "format": "pcm", **options})
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.parametrize("honest", [True, False])
async def test_one_piece_is_sent_as_it_is_ready(tmp_path: Path, honest: bool) -> None:
    async with served(Prepared(honest=honest), tmp_path) as client:
        for path in PATHS:
            sent = np.frombuffer(await asked(client, path, ONE), np.int16)
            exact = np.frombuffer(await asked(client, path, ONE, sample_format="pcm_f32le"), np.float32)
            expected = np.frombuffer(pcm16(exact), np.int16) if honest else np.full(len(exact), MARK)
            assert np.array_equal(sent, expected)


async def test_not_where_more_is_to_be_done(tmp_path: Path) -> None:
    async with served(Prepared(honest=False), tmp_path) as client:
        for path in PATHS:
            for said in (ONE | {"volume": -6.0}, ONE | {"sample_rate": 16_000}, SEVERAL):
                sent = await asked(client, path, said)
                exact = np.frombuffer(await asked(client, path, said, sample_format="pcm_f32le"), np.float32)
                assert sent == pcm16(exact)


async def test_nothing_holds_a_batch_afterwards(tmp_path: Path) -> None:
    engine = Prepared(honest=True)
    async with served(engine, tmp_path) as client:
        for path in PATHS:
            for said in (ONE, SEVERAL, ONE | {"format": "mp3"}, SEVERAL | {"format": "mp3"}):
                engine.buffers.clear()
                await client.post(path, json=said)
                assert engine.buffers
                await until(lambda: gc.collect() >= 0 and all(buffer() is None for buffer in engine.buffers))
