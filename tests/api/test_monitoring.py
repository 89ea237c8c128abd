from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kokoro_server.app import create_app
from kokoro_server.config import Settings
from kokoro_server.parts import Parts
from tests import tiny


@asynccontextmanager
async def served(
    folder: Path, backend: str = "torch", **environ: str
) -> AsyncIterator[tuple[httpx.AsyncClient, Parts]]:
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", **environ}, dotenv=None)
    app = create_app(settings, load=lambda _settings: tiny.load(folder, backend=backend))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client, app.state.parts


async def test_the_self_test_keeps_to_the_queues_size(tmp_path: Path) -> None:
    async with served(tmp_path, MAX_QUEUE_SIZE="1") as (client, parts):
        parts.queue.hold()
        first = asyncio.create_task(client.post("/test/batching"))
        while not parts.queue.snapshot()["queue_status"]["current_size"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        others = await asyncio.gather(*(client.post("/test/batching") for _ in range(20)))
        assert parts.queue.snapshot()["queue_status"]["current_size"] == 1
        assert {answer.status_code for answer in others} == {429}
        assert all("retry-after" in answer.headers for answer in others)
        parts.queue.release()
        assert (await first).json()["successful"] == 1


@pytest.mark.parametrize(("backend", "rows"), [("torch", 4), ("onnx", 1)])
async def test_it_says_how_many_rows_truly_shared_a_forward_pass(tmp_path: Path, backend: str, rows: int) -> None:
    """The engine on onnxruntime runs each row by itself."""
    async with served(tmp_path, backend) as (client, parts):
        parts.queue.hold()
        testing = asyncio.create_task(client.post("/test/batching"))
        while parts.queue.snapshot()["queue_status"]["current_size"] < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        parts.queue.release()
        found = (await testing).json()
        answers = [await client.post(path, json={"phonemes": "wˈʌn."}) for path in ("/tts", "/tts")]
        health = (await client.get("/health/batching")).json()
        metrics = (await client.get("/metrics")).text
    assert (found["successful"], found["batch_sizes"], found["batching_efficiency"]) == (4, [rows] * 4, rows / 4)
    assert [answer.headers["x-batch-size"] for answer in answers] == ["1", "1"]
    assert health["config"]["max_batch_size"] == rows
    assert health["performance"]["batch_sizes"] == ({"1": 6} if rows == 1 else {"1": 2, "4": 1})
    assert f"tts_batch_rows_count {6 if rows == 1 else 3}.0" in metrics
