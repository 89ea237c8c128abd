"""The queue behind real HTTP: watched from outside, under load, and when things go wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests import backends, servers
from tests.servers import Server, is_idle, say, wait_for


def snapshot(server: Server) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = httpx.get(f"{server.url}/health/batching", timeout=30).json()
    return found


async def nothing_left(server: Server) -> None:
    await asyncio.to_thread(wait_for, lambda: is_idle(server))


async def say_many(server: Server, texts: list[str], **fields: object) -> list[httpx.Response]:
    async with httpx.AsyncClient(timeout=300) as client:
        return await asyncio.gather(
            *(client.post(f"{server.url}/tts", json={"text": text, **fields}) for text in texts)
        )


def test_health_batching_has_its_fixed_keys(tiny_server: Server) -> None:
    found = snapshot(tiny_server)
    assert found["batching_enabled"] is True
    assert found["status"] == "healthy"
    assert {"current_size", "worker_running"} <= set(found["queue_status"])
    assert {"total_batches", "total_requests", "avg_batch_size"} <= set(found["performance"])
    assert {"max_batch_size", "max_wait_ms", "min_wait_ms"} <= set(found["config"])


@pytest.mark.skipif(backends.ASKED == "onnx", reason="there, each row is a forward pass of its own")
async def test_requests_that_come_together_are_spoken_together(tiny_server: Server) -> None:
    await nothing_left(tiny_server)  # of tests before this one
    before = snapshot(tiny_server)["performance"]
    answers = await say_many(tiny_server, [f"This is number {n}." for n in range(16)])
    assert [answer.status_code for answer in answers] == [200] * 16
    assert max(int(answer.headers["x-batch-size"]) for answer in answers) > 1
    after = snapshot(tiny_server)["performance"]
    assert after["total_requests"] == before["total_requests"] + 16  # type: ignore[operator]
    assert after["total_batches"] < before["total_batches"] + 16  # type: ignore[operator]
    assert snapshot(tiny_server)["queue_status"]["current_size"] == 0


async def test_a_clip_is_the_same_alone_and_in_a_crowd(tiny_server: Server) -> None:
    alone = say(tiny_server, "This is number 3.", format="pcm", sample_format="pcm_f32le")
    crowd = await say_many(
        tiny_server, [f"This is number {n}." for n in range(8)], format="pcm", sample_format="pcm_f32le"
    )
    assert int(alone.headers["x-batch-size"]) == 1
    assert len(crowd[3].content) == len(alone.content)
    servers.assert_same_audio(crowd[3].content, alone.content)


def test_self_test_speaks_four_phrases(tiny_server: Server) -> None:
    found = httpx.post(f"{tiny_server.url}/test/batching", timeout=60).json()
    assert found["test_requests"] == found["successful"] == 4
    assert found["errors"] == []
    assert 0 < found["batching_efficiency"] <= 1
    assert found["total_time_ms"] == pytest.approx(4 * found["avg_time_per_request_ms"], abs=1)
    assert all(seconds > 0 for seconds in found["audio_seconds"])


def test_metrics_name_what_happened(tiny_server: Server) -> None:
    assert say(tiny_server, "Hello.").status_code == 200
    assert say(tiny_server, "").status_code == 422
    httpx.get(f"{tiny_server.url}/nowhere")
    text = httpx.get(f"{tiny_server.url}/metrics").text
    for name in (
        'tts_requests_total{endpoint="/tts",outcome="ok"}',
        'tts_requests_total{endpoint="/tts",outcome="invalid"}',
        'tts_requests_total{endpoint="other",outcome="invalid"}',
        "tts_requests_running",
        'tts_requests_waiting{priority="bulk"}',
        "tts_time_to_first_audio_seconds_count",
        "tts_queue_time_seconds_count",
        "tts_g2p_time_seconds_count",
        "tts_inference_time_seconds_count",
        "tts_request_seconds_count",
        "tts_batch_rows_count",
        "tts_batch_padding_ratio_count",
        'tts_batches_total{fire_reason="',
        "tts_audio_seconds_total",
    ):
        assert f"\n{name}" in text, name
    assert "/nowhere" not in text


async def test_the_loop_answers_while_the_engine_works(tiny_server: Server) -> None:
    """Four long texts keep the engine busy; health is asked all the while and never waits for it."""
    texts = ["The quick brown fox jumps over the lazy dog, again and again. " * 10] * 4
    work = asyncio.create_task(say_many(tiny_server, texts))
    asked = 0
    async with httpx.AsyncClient(timeout=60) as client:
        while not work.done():
            response = await client.get(f"{tiny_server.url}/health/live")
            assert response.status_code == 200
            asked += 1
            await asyncio.sleep(0.01)
    assert asked >= 5
    assert all(answer.status_code == 200 for answer in await work)


async def test_clients_that_leave_are_dropped_from_the_queue(tiny_server: Server) -> None:
    before = snapshot(tiny_server)["performance"]["cancelled"]
    text = "The quick brown fox jumps over the lazy dog, again and again. " * 20
    async with httpx.AsyncClient(timeout=300) as client:
        tasks = [
            asyncio.create_task(client.post(f"{tiny_server.url}/tts", json={"text": f"{n}. {text}"})) for n in range(12)
        ]
        await asyncio.to_thread(wait_for, lambda: snapshot(tiny_server)["queue_status"]["current_size"])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await nothing_left(tiny_server)
    assert snapshot(tiny_server)["performance"]["cancelled"] > before  # type: ignore[operator]
    assert say(tiny_server, "Still here.").status_code == 200


@pytest.mark.slow  # tests/faults/test_load_matrix.py fills a queue too
async def test_a_full_queue_is_a_429_that_says_when_to_come_back(log_file: Path) -> None:
    with servers.running(servers.TINY, log_file, MAX_QUEUE_SIZE="4") as server:
        text = "The quick brown fox jumps over the lazy dog, again and again. "
        answers = await say_many(server, [text * 10] * 40)
        statuses = {answer.status_code for answer in answers}
        assert statuses == {200, 429}
        for answer in answers:
            if answer.status_code == 429:
                assert answer.json()["error"]["code"] == "too_busy"
                assert int(answer.headers["retry-after"]) >= 1
        assert snapshot(server)["queue_status"]["current_size"] == 0


def test_a_client_may_ask_for_less_time(tiny_server: Server) -> None:
    url, body = f"{tiny_server.url}/tts", {"text": "Hello."}
    late = httpx.post(url, json=body, headers={"x-request-timeout": "0.000001"}, timeout=60)
    assert late.status_code in (429, 504)
    assert late.json()["error"]["message"]
    for bad in ("0", "-1", "nan", "soon"):
        refused = httpx.post(url, json=body, headers={"x-request-timeout": bad}, timeout=60)
        assert refused.status_code == 422
        assert "x-request-timeout" in refused.json()["error"]["message"].lower()


def test_without_batching_the_answer_is_the_same(tiny_server: Server, shared_g2p: str, log_file: Path) -> None:
    with servers.running(servers.TINY, log_file, ENABLE_BATCHING="false", G2P_SERVICE_URL=shared_g2p) as server:
        assert snapshot(server)["status"] == "disabled"
        response = say(server, "Hello there.")
        assert response.headers["x-batching-enabled"] == "false"
        assert response.content == say(tiny_server, "Hello there.").content
