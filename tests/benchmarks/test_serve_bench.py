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
from benchmarks.serving.figures import percentiles, ratios, steps
from benchmarks.serving.load import Answer, Connection, question
from benchmarks.serving.prose import PATTERNS, combinations, sentence
from benchmarks.serving.usage import Process, all_processes, family_of, role

FIGURES = ("requests", "audio_per_second", "requests_per_second", "cpu", "cpu_ms_per_request")


@pytest.mark.slow
def test_it_measures_both_servers(tmp_path: Path) -> None:
    out = tmp_path / "serve.json"
    words = ["--model", "tiny", "--seconds", "3", "--clients", "2", "--beside-clients", "1", "--processes", "1"]
    words += ["--warm", "0", "--client-processes", "1", "--limit", "1000", "--parts", "plain,serve,beside"]
    command = [sys.executable, "-m", "benchmarks.serve_bench", *words, "--out", str(out)]
    done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["benchmark"] == "serve"
    assert found["left_out"] == []
    assert found["plain_model"]["audio_per_second"] > 0
    [start] = found["starts"]
    assert start["processes"] == 1
    assert start["ready_s"] > 0
    assert len(start["requests_ms"]) == 10
    assert {(line["server"], line["endpoint"], line["clients"]) for line in found["runs"]} == {
        ("kokoro-server", "/tts", 2),
        ("kokoro-server", "/tts/stream", 2),
        ("kokoro-server", "/v1/audio/speech", 2),
        ("one-at-a-time", "/tts", 1),
        ("one-at-a-time", "/tts/stream", 1),
    }
    for line in found["runs"]:
        assert line["errors"] == 0, line
        assert all(line[name] is not None for name in FIGURES), line
        assert 0 < line["first_audio_ms"]["p50"] <= line["total_ms"]["p50"]
        assert line["first_audible_ms"]["p50"] >= line["first_audio_ms"]["p50"]
        if line["server"] == "kokoro-server":
            assert 0 < line["device_busy"] <= 1.05
            assert any("g2p" in process["role"] for process in line["processes_cpu"]), line["processes_cpu"]
    assert found["ratios"]


def test_what_no_longer_fits_is_named(tmp_path: Path) -> None:
    out = tmp_path / "serve.json"
    command = [sys.executable, "-m", "benchmarks.serve_bench", "--model", "tiny", "--limit", "0", "--out", str(out)]
    done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["left_out"] == ["plain model", "SERVER_PROCESSES=0", "one-at-a-time", "start with empty caches"]
    assert found["runs"] == []


def test_no_sentence_comes_twice() -> None:
    assert len({sentence(number) for number in range(90_000)}) == 90_000
    assert all(len(PATTERNS) * combinations(pattern) > 500_000 for pattern in PATTERNS)


def test_sentences_are_as_long_as_in_prose() -> None:
    lengths = [len(sentence(number)) for number in range(20_000)]
    assert 85 < sum(lengths) / len(lengths) < 95
    assert sum(length < 50 for length in lengths) > len(lengths) / 10
    assert max(lengths) > 180


def test_every_process_of_a_server_is_found_and_named() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        late = time.monotonic() + 30
        while len(family := family_of(parent.pid, all_processes())) < 2:
            assert time.monotonic() < late
            time.sleep(0.05)
        parent.communicate(b"\n")
    assert set(family) > {parent.pid}

    def process(pid: int, parent: int, command: str) -> Process:
        return Process(pid, parent, command, {pid: 0.0}, 0.0, 1.0)

    commands = {
        1: process(1, 0, "python -m kokoro_server serve"),
        2: process(2, 1, "python -P -m kokoro_server.server.processes.child engine"),
        3: process(3, 1, "python -m kokoro_server.g2p.service --port 1"),
        4: process(4, 3, "python -c from multiprocessing.spawn import spawn_main; spawn_main()"),
        5: process(5, 3, "python -c from multiprocessing.resource_tracker import main"),
    }
    assert [role(each, commands) for each in commands.values()] == [
        "serve",
        "server.processes.child engine",
        "g2p.service",
        "g2p.service child",
        "resource tracker",
    ]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\n" + bytes(100), "status 500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n" + bytes(44), "no audio"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + bytes(100), "too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 48044\r\nX-Audio-Duration: 2.000\r\n\r\n" + bytes(48044), "announced"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9644\r\n\r\n" + bytes(9644), "are right"),
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
        connection = Connection(url)
        asked = question(0, "/tts", ("af_heart",), known_pace=True)
        found = await connection.ask("/tts", asked, time.monotonic())
        connection.close()
    assert fault in found.fault


def test_steps_of_a_server_and_what_is_left_between_them() -> None:
    answer = Answer(0.0, 0.02, 0.02, 1.0, server_ms={"text": 5.0, "queue": 1.0, "total": 9.0, "audible": 70.0})
    found = {name: told["p50"] for name, told in steps([answer, Answer(0.0, 1.0, 1.0, 1.0)]).items()}
    assert found == {"text": 5.0, "queue": 1.0, "total": 9.0, "audible": 70.0, "rest": 3.0}
    assert steps([]) == {}


def test_percentiles_are_of_what_was_seen() -> None:
    assert percentiles([float(value) for value in range(1, 101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert percentiles([]) == {"p50": None, "p95": None, "p99": None}


def test_ratios_compare_throughput_and_the_wait_for_sound() -> None:
    def run(server: str, endpoint: str, rate: float, first: float) -> dict[str, object]:
        facts = {"server": server, "processes": 0, "endpoint": endpoint, "mode": "closed", "clients": 4}
        return facts | {"requests": 9, "audio_per_second": rate, "first_audio_ms": {"p95": first}}

    runs = [
        run("kokoro-server", "/tts", 800.0, 20.0),
        run("kokoro-server", "/tts/stream", 900.0, 20.0),
        run("one-at-a-time", "/tts", 40.0, 300.0),
        run("one-at-a-time", "/tts/stream", 40.0, 300.0),
    ]
    other = run("kokoro-server", "/tts", 300.0, 20.0) | {"processes": 1}
    assert ratios({"plain_model": {"audio_per_second": 80.0}, "forms": [0, 1], "runs": [*runs, other]}) == {
        "best_by_plain_model": 10.0,
        "by_plain_model_at_4": 10.0,
        "by_one_at_a_time_at_4": 20.0,
        "one_at_a_time_first_audio_p95_by_ours_at_4": 15.0,
    }
    assert ratios({"plain_model": None, "forms": [0], "runs": runs[:2]}) == {}
