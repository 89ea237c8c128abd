"""On a CPU each request is answered when its own row is done, whoever came with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import EngineLimits, Result, Row
from kokoro_server.server.app import create_app
from tests import backends, tiny
from tests.batching.doubles import until

PATIENCE = 60.0  # seconds
PHONEMES = "wˈʌn, tˈu, θɹˈi, fˈɔɹ."


class StepwiseEngine:
    """The tiny model on onnxruntime. It computes a row for each `step` that it is allowed."""

    device = "cpu"

    def __init__(self) -> None:
        self._engine = backends.tiny("onnx")
        self.step = threading.Semaphore(0)
        self.rows: list[int] = []  # seeds of those that were begun

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        for row in rows:
            self.rows.append(row.seed)
            assert self.step.acquire(timeout=PATIENCE)
        return self._engine.synthesize(rows)


@asynccontextmanager
async def served(folder: Path, engine: StepwiseEngine) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: LoadedModel(
            (engine,), ModelFacts(tiny.load(folder).facts.voices, "fp32", "path", "onnx")
        ),
    )
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def waiting(client: httpx.AsyncClient, count: int) -> None:
    """Until so many rows wait behind the one at work."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await client.get("/health/batching")).json()["queue_status"]
            if (status["current_size"], status["running_rows"]) == (count, 1):
                return
            await asyncio.sleep(0.01)


async def test_nobody_waits_for_the_rows_of_others(tmp_path: Path) -> None:
    engine = StepwiseEngine()
    async with served(tmp_path, engine) as client:

        def ask(path: str, seed: int) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(client.post(path, json={"phonemes": PHONEMES, "seed": seed}))

        clips = [ask("/tts", seed) for seed in range(4)]
        await waiting(client, 3)
        await until(lambda: engine.rows, patience=PATIENCE)  # its thread may not have come so far
        begun = engine.rows[0]
        stream = ask("/tts/stream", 9)
        await waiting(client, 4)
        left = next(seed for seed in range(4) if seed != begun)
        clips[left].cancel()
        await waiting(client, 3)

        engine.step.release()
        answer = await asyncio.wait_for(clips[begun], PATIENCE)
        assert (answer.status_code, answer.headers["x-batch-size"]) == (200, "1")
        engine.step.release()
        assert (await asyncio.wait_for(stream, PATIENCE)).status_code == 200

        engine.step.release(2)
        rest = [clip for seed, clip in enumerate(clips) if seed not in (begun, left)]
        answers = await asyncio.gather(*rest)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert engine.rows[:2] == [begun, 9], "the stream goes between two rows"
    assert left not in engine.rows, "who leaves before it begins is not spoken"
