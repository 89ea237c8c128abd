"""The benchmark of the whole server, end to end with the tiny model; and that it counts no bad answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import common
from benchmarks.serve_bench import ENDPOINTS, plan
from benchmarks.serve_figures import percentiles, ratios
from benchmarks.serve_load import Load, Question, run

FIGURES = ("requests", "audio_per_second", "requests_per_second", "batch_rows_mean", "loop_cpu_share")


@pytest.mark.slow
def test_it_measures_both_servers(tmp_path: Path) -> None:
    out = tmp_path / "serve.json"
    words = ["--model", "tiny", "--seconds", "4", "--clients", "2", "--plain-clients", "1", "--rates", "3"]
    command = [sys.executable, "-m", "benchmarks.serve_bench", *words, "--processes", "1", "--out", str(out)]
    done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["benchmark"] == "serve"
    assert found["plain_model"]["audio_per_second"] > 0
    assert {(line["server"], line["endpoint"], line["mode"], line["input"]) for line in found["runs"]} == {
        ("kokoro-server", "/tts", "closed", "text"),
        ("kokoro-server", "/tts", "closed", "phonemes"),
        ("kokoro-server", "/tts", "poisson", "text"),
        ("kokoro-server", "/tts/stream", "closed", "text"),
        ("kokoro-server", "/tts/stream", "poisson", "text"),
        ("kokoro-server", "/v1/audio/speech", "closed", "text"),
        ("one-at-a-time", "/tts", "closed", "text"),
        ("one-at-a-time", "/tts/stream", "closed", "text"),
        ("one-at-a-time", "/v1/audio/speech", "closed", "text"),
    }
    for line in found["runs"]:
        assert line["errors"] == 0, line
        assert all(line[name] is not None for name in FIGURES), line
        assert 0 < line["first_audio_ms"]["p50"] <= line["total_ms"]["p50"]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\n" + bytes(100), "status 500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n" + bytes(44), "no audio"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + bytes(100), "too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 48044\r\nX-Audio-Duration: 2.000\r\n\r\n" + bytes(48044), "announced"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 24044\r\n\r\n" + bytes(24044), "are right"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + bytes(100) + b"\r\n", "ValueError"),
    ],
)
async def test_a_bad_answer_is_an_error(answer: bytes, fault: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        now = time.monotonic()
        load = Load(url, "/tts", [Question({}, seconds=1.0)], "closed", 1, 0.0, now, now + 0.05, seed=1)
        answers = await asyncio.to_thread(run, load)
    assert answers
    assert all(fault in answer.fault for answer in answers), answers[0]


def test_percentiles_are_of_what_was_seen() -> None:
    assert percentiles([float(value) for value in range(1, 101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert percentiles([]) == {"p50": None, "p95": None, "p99": None}


def test_the_other_server_is_measured_at_every_endpoint() -> None:
    found = {(run.endpoint, run.clients) for run in plan((1, 4), (1,), (50,)) if run.server == "one-at-a-time"}
    assert found == {(endpoint, 1) for endpoint in ENDPOINTS}


def test_ratios_compare_throughput_and_the_wait_for_sound() -> None:
    def run(server: str, endpoint: str, rate: float, first: float) -> dict[str, object]:
        facts = {"server": server, "endpoint": endpoint, "mode": "closed", "input": "text", "clients": 4}
        return facts | {"requests": 9, "audio_per_second": rate, "first_audio_ms": {"p95": first}}

    runs = [
        run("kokoro-server", "/tts", 800.0, 20.0),
        run("kokoro-server", "/tts/stream", 900.0, 20.0),
        run("one-at-a-time", "/tts", 40.0, 300.0),
        run("one-at-a-time", "/tts/stream", 40.0, 300.0),
    ]
    assert ratios({"plain_model": {"audio_per_second": 80.0}, "runs": runs}) == {
        "best_by_plain_model": 10.0,
        "by_plain_model_at_4": 10.0,
        "by_one_at_a_time_at_4": 20.0,
        "one_at_a_time_first_audio_p95_by_ours_at_4": 15.0,
    }
    assert ratios({"plain_model": None, "runs": runs[:2]}) == {}
