from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.services import Services
from tests import tiny

LAGS = ("0.25", "+Inf")


@asynccontextmanager
async def served(
    folder: Path, backend: str = "torch", **environ: str
) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", **environ}, dotenv=None)
    app = create_app(settings, load=lambda _settings: tiny.load(folder, backend=backend))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client, app.state.services


async def test_the_self_test_keeps_to_the_queues_size(tmp_path: Path) -> None:
    async with served(tmp_path, MAX_QUEUE_SIZE="1") as (client, services):
        services.queue.hold()
        first = asyncio.create_task(client.post("/test/batching"))
        while not services.queue.snapshot()["queue_status"]["current_size"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        others = await asyncio.gather(*(client.post("/test/batching") for _ in range(20)))
        assert services.queue.snapshot()["queue_status"]["current_size"] == 1
        assert {answer.status_code for answer in others} == {429}
        assert all("retry-after" in answer.headers for answer in others)
        services.queue.release()
        found = (await first).json()
        assert (found["successful"], found["verdict"]) == (1, "needs_tuning")


@pytest.mark.parametrize(("backend", "rows"), [("torch", 4), ("onnx", 1)])
async def test_it_says_how_many_rows_truly_shared_a_forward_pass(tmp_path: Path, backend: str, rows: int) -> None:
    """The engine on onnxruntime runs each row by itself."""
    async with served(tmp_path, backend) as (client, services):
        services.queue.hold()
        testing = asyncio.create_task(client.post("/test/batching"))
        while services.queue.snapshot()["queue_status"]["current_size"] < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        services.queue.release()
        found = (await testing).json()
        answers = [await client.post(path, json={"phonemes": "wˈʌn."}) for path in ("/tts", "/tts")]
        health = (await client.get("/health/batching")).json()
        metrics = (await client.get("/metrics")).text
    assert (found["successful"], found["batch_sizes"], found["batching_efficiency"]) == (4, [rows] * 4, rows / 4)
    assert found["verdict"] == "good"  # as many as the engine can
    assert [answer.headers["x-batch-size"] for answer in answers] == ["1", "1"]
    assert health["config"]["max_batch_size"] == rows
    assert health["performance"]["batch_sizes"] == ({"1": 6} if rows == 1 else {"1": 2, "4": 1})
    assert f"tts_batch_rows_count {6 if rows == 1 else 3}.0" in metrics


async def test_without_batching_there_is_nothing_to_test(tmp_path: Path) -> None:
    async with served(tmp_path, ENABLE_KOKORO_BATCHING="false") as (client, services):
        refused = await client.post("/test/batching")
        assert services.queue.snapshot()["performance"]["total_requests"] == 0
    assert refused.status_code == 400
    assert "ENABLE_KOKORO_BATCHING" in refused.json()["error"]["message"]


async def test_it_says_how_long_listeners_have_waited(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _services):
        before = (await client.get("/health/batching")).json()
        for path in ("/tts", "/tts/stream"):
            await client.post(path, json={"phonemes": "wˈʌn."})
        after = (await client.get("/health/batching")).json()
    assert before["first_audio"] == before["first_audible"] == {"count": 0, "total_seconds": 0}
    assert after["first_audio"]["count"] == after["first_audible"]["count"] == 2
    assert after["first_audible"]["total_seconds"] > after["first_audio"]["total_seconds"] > 0


async def test_streaming_health_has_the_counts_where_the_first_version_had_them(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _services):
        await client.post("/tts/stream", json={"phonemes": "wˈʌn."})
        found = (await client.get("/health/streaming")).json()["batch_queue_stats"]
    flat = {
        "total_batches": 1,
        "total_requests": 1,
        "avg_batch_size": 1,
        "current_queue_size": 0,
        "worker_running": True,
    }
    assert found.items() >= flat.items()
    assert found["performance"]["total_requests"] == 1
    assert found["queue_status"]["current_size"] == 0


async def test_a_clip_of_a_batch_that_is_wanted_early_does_not_wait_for_the_others(tmp_path: Path) -> None:
    bulk = [{"phonemes": "wˈʌn."}] * 5
    early = {"phonemes": "tˈu.", "optimize_for_latency": True}
    async with served(tmp_path, KOKORO_MAX_BATCH_SIZE="1") as (client, services):
        services.queue.hold()
        answer = asyncio.create_task(client.post("/tts/batch", json={"requests": [*bulk, early]}))
        async with asyncio.timeout(60):
            while sum((lanes := services.queue.snapshot()["queue_status"]["by_priority"]).values()) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        services.queue.release()
        assert (await answer).headers["x-failed-requests"] == "0"
    # Two batches' worth of those in bulk, and the early one, though it is the last.
    assert (lanes["bypass"], lanes["bulk"]) == (1, 2)


async def test_metrics_tell_of_a_loop_that_was_held_up(tmp_path: Path) -> None:
    def late(text: str) -> float:
        counts = {edge: _value(text, f'tts_loop_lag_seconds_bucket{{le="{edge}",process="server"}}') for edge in LAGS}
        return counts["+Inf"] - counts["0.25"]

    async with served(tmp_path) as (client, _services):
        before = late((await client.get("/metrics")).text)
        await asyncio.sleep(0.01)
        time.sleep(1)  # noqa: ASYNC251
        async with asyncio.timeout(60):
            while late((await client.get("/metrics")).text) <= before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_metrics_tell_whether_requests_are_accepted(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, services):
        assert _value((await client.get("/metrics")).text, "tts_ready") == 1
        await services.queue.stop()
        assert (await client.get("/health/ready")).status_code == 503
        assert _value((await client.get("/metrics")).text, "tts_ready") == 0


def _value(metrics: str, sample: str) -> float:
    (line,) = (line for line in metrics.splitlines() if line.startswith(f"{sample} "))
    return float(line.rpartition(" ")[2])
