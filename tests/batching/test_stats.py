"""What the health page and Prometheus show."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kokoro_server.batching import Priority
from kokoro_server.batching.devices.activity import percentiles
from kokoro_server.observability.metrics import Metrics


async def test_the_fixed_keys_are_there(start):
    snapshot = (await start()).snapshot()
    assert {"batching_enabled", "status", "model", "queue_status", "devices", "performance", "config"} == set(snapshot)
    assert {"current_size", "worker_running"} <= set(snapshot["queue_status"])
    assert {"total_batches", "total_requests", "avg_batch_size"} <= set(snapshot["performance"])
    assert {"max_batch_size", "max_wait_ms", "min_wait_ms"} <= set(snapshot["config"])
    assert (snapshot["batching_enabled"], snapshot["status"]) == (True, "healthy")


async def test_what_waits_is_shown_by_voice_and_priority(start, submit):
    queue = await start()
    queue.hold()
    await submit(queue, 0, 1, voice="af_heart")
    tasks = await submit(queue, 2, voice="bf_emma", priority=Priority.BULK)
    status = queue.snapshot()["queue_status"]
    assert status["current_size"] == 3
    assert status["voice_groups"] == {"af_heart": 2, "bf_emma": 1}
    assert status["by_priority"] == {"bypass": 0, "following": 0, "normal": 2, "ahead": 0, "bulk": 1}
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert queue.snapshot()["queue_status"]["voice_groups"] == {"af_heart": 2}


async def test_what_ran_is_counted(start, submit, engine, clock):
    queue = await start()
    engine.before = lambda _rows: clock.pass_time(0.5)
    queue.hold()
    await submit(queue, 0, 1, 2, 3, tokens=8)
    await submit(queue, 4, tokens=18)
    await submit(queue, 5, tokens=8)
    queue.release()
    await asyncio.gather(*submit.tasks)
    performance = queue.snapshot()["performance"]
    assert (performance["total_batches"], performance["total_requests"]) == (2, 6)
    assert performance["avg_batch_size"] == 3.0
    assert performance["batch_sizes"] == {"2": 1, "4": 1}
    assert {reason: count for reason, count in performance["fire_reasons"].items() if count} == {
        "full": 1,
        "device_free": 1,
    }
    recent = performance["recent"]
    assert recent["padding_ratio"] == pytest.approx((4 * 40 + 2 * 65) / (5 * 40 + 65), abs=0.001)
    assert recent["queue_wait_ms"] == {"p50": 0.0, "p95": 500.0, "p99": 500.0}
    assert recent["run_ms"]["p50"] == pytest.approx(500.0)


async def test_prometheus_sees_the_same(start, submit):
    metrics = Metrics()
    queue = await start(metrics=metrics)
    queue.hold()
    tasks = await submit(queue, 0, 1, tokens=8)
    await submit(queue, 2, tokens=8, priority=Priority.BULK)
    text = metrics.render().decode()
    assert 'tts_requests_waiting{priority="normal"} 2.0' in text
    assert 'tts_queued_audio_seconds{priority="normal"} 2.0' in text  # 2 rows × 40 frames × 25 ms
    assert 'tts_queued_audio_seconds{priority="bulk"} 1.0' in text
    queue.release()
    await asyncio.gather(*tasks, *submit.tasks)
    text = metrics.render().decode()
    assert 'tts_batches_total{fire_reason="device_free"} 1.0' in text
    assert 'tts_requests_waiting{priority="normal"} 0.0' in text
    assert 'tts_queued_audio_seconds{priority="normal"} 0.0' in text
    assert "tts_requests_running 0.0" in text
    assert "tts_queue_time_seconds_count 3.0" in text
    assert "tts_batch_rows_sum 3.0" in text
    assert "tts_audio_seconds_total 3.0" in text  # 3 rows × 40 frames × 25 ms


def test_every_promised_metric_is_exposed():
    metrics = Metrics()
    metrics.requests.labels("/tts", "ok").inc()
    text = metrics.render().decode()
    for name in (
        "tts_requests_total",
        "tts_requests_running",
        "tts_requests_waiting",
        "tts_queued_audio_seconds",
        "tts_time_to_first_audio_seconds",
        "tts_time_to_first_audible_seconds",
        "tts_queue_time_seconds",
        "tts_g2p_time_seconds",
        "tts_inference_time_seconds",
        "tts_request_seconds",
        "tts_batch_rows",
        "tts_batch_padding_ratio",
        "tts_batches_total",
        "tts_audio_seconds_total",
    ):
        assert f"# TYPE {name} " in text


def test_two_apps_share_no_metrics():
    first, second = Metrics(), Metrics()
    first.audio_seconds.inc(5)
    assert "tts_audio_seconds_total 0.0" in second.render().decode()


async def test_one_log_line_per_batch(start, submit, caplog):
    caplog.set_level(logging.INFO, logger="kokoro_server.batching")
    queue = await start()
    queue.hold()
    await submit(queue, 0, voice="a")
    await submit(queue, 1, voice="b")
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert caplog.messages == [
        "batch rows=2 voices=2 padding=1.00 wait_ms=0.0 run_ms=0.0 reason=device_free device=double"
    ]


def test_percentiles_of_nothing_are_zero():
    assert percentiles([]) == {"p50": 0.0, "p95": 0.0, "p99": 0.0}
    assert percentiles(range(101)) == {"p50": 50, "p95": 95, "p99": 99}
