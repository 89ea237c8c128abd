"""Traces that are off, that cannot be on, and that nobody takes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.config.sources import export_otel
from kokoro_server.errors import ConfigError
from kokoro_server.observability import tracing
from kokoro_server.observability.tracing import otel
from kokoro_server.server.app import create_app
from tests import hidden_modules, tiny
from tests.observability.tracing import collector as collectors
from tests.observability.tracing.collector import Collector, named

OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOBODY = "http://127.0.0.1:9"
SETTINGS = Settings.load({"G2P_SERVICE_URL": NOBODY}, dotenv=None)


@pytest.fixture(autouse=True)
def _own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collectors.running() as collector:
        yield collector


@pytest.mark.parametrize(
    ("mode", "environ", "wanted"),
    [
        ("auto", {}, False),
        ("auto", {OTLP: "http://collector:4318"}, True),
        ("auto", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ("auto", {OTLP: "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ("auto", {OTLP: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ("on", {}, True),
        ("off", {OTLP: "http://collector:4318"}, False),
    ],
)
def test_who_is_traced(
    monkeypatch: pytest.MonkeyPatch, mode: tracing.Mode, environ: dict[str, str], wanted: bool
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert tracing.is_wanted(mode) is wanted


def test_variables_of_the_env_file_are_opentelemetrys_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.delenv(OTLP, raising=False)
    (tmp_path / ".env").write_text(f"OTEL_SERVICE_NAME=other\n{OTLP}=http://collector:4318\nPORT=1\n")
    export_otel(tmp_path / ".env")
    try:
        assert (os.environ["OTEL_SERVICE_NAME"], os.environ[OTLP]) == ("mine", "http://collector:4318")
    finally:
        os.environ.pop(OTLP)


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_EXPORTER"])
def test_what_is_not_offered_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "grpc")
    with pytest.raises(ConfigError, match=f"{name}=grpc: must be"), tracing.configured("on", "server"):
        pass


def test_missing_packages_are_told_with_what_to_do(tmp_path: Path) -> None:
    hidden = hidden_modules.environment(tmp_path, ("opentelemetry",))
    code = "from kokoro_server.observability import tracing\nwith tracing.configured('on', 'server'): pass"
    ended = subprocess.run([sys.executable, "-c", code], env=os.environ | hidden, capture_output=True, text=True)
    assert "SetupError" in ended.stderr
    assert "pip install 'kokoro-server[tracing]'" in ended.stderr


def test_an_ordinary_server_reads_nothing_of_it() -> None:
    code = "import kokoro_server.server.app, sys; print([each for each in sys.modules if 'opentelemetry.sdk' in each])"
    engine = "import kokoro_server.server.processes.engine, sys; print([m for m in sys.modules if 'telemetry' in m])"
    for each in (code, engine):
        assert subprocess.check_output([sys.executable, "-c", each], text=True) == "[]\n"


@asynccontextmanager
async def client(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Of a server in this process."""
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(folder))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def test_without_a_callers_trace_a_request_begins_one(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OTLP, collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    async with client(tmp_path) as asking:
        for path in ("/health", "/metrics"):
            assert (await asking.get(path)).status_code in (200, 503)
        assert (await asking.post("/tts", json={"phonemes": "hˈIlO."})).status_code == 200
        assert (await asking.get("/nowhere")).status_code == 404
    assert {span.resource["service.name"] for span in collector.spans} == {"mine"}
    assert {span.name for span in collector.spans if not span.parent} == {"POST /tts", "GET"}  # polling is not traced
    assert {span.name for span in collector.spans} >= {"text", "row", "queue", "batch", "encode", "send"}


@pytest.mark.parametrize("sampled", [True, False])
async def test_the_sampler_of_the_environment_decides(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch, sampled: bool
) -> None:
    monkeypatch.setenv(OTLP, collector.url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1" if sampled else "0")
    async with client(tmp_path) as asking:
        assert (await asking.post("/tts", json={"phonemes": "hˈIlO."})).status_code == 200
    assert bool(collector.spans) is sampled


async def test_a_row_that_expires_is_told(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OTLP, collector.url)
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as asking:
        app.state.services.queue.hold()
        body, headers = {"phonemes": "hˈIlO."}, {"X-Request-Timeout": "0.05"}
        assert (await asking.post("/tts", json=body, headers=headers)).status_code == 504
    [row], [request] = named(collector.spans, "row"), named(collector.spans, "POST /tts")
    assert row.attributes["error.type"] == "deadline_exceeded"
    assert (request.failed, request.attributes["error.type"]) == (True, "504")


async def test_a_collector_that_is_away_matters_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(OTLP, NOBODY)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with caplog.at_level(logging.INFO):
        async with client(tmp_path) as asking:
            for _ in range(3):
                assert (await asking.post("/tts", json={"phonemes": "hˈIlO."})).status_code == 200
    assert caplog.text.count("traces cannot be sent") == 1


async def test_one_that_does_not_answer_does_not_keep_the_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otel, "FLUSH_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(OTLP, f"http://127.0.0.1:{silent.getsockname()[1]}")
        async with client(tmp_path) as asking:
            assert (await asking.post("/tts", json={"phonemes": "hˈIlO."})).status_code == 200
            ending = time.monotonic()
        assert time.monotonic() - ending < 8  # the exporter would wait for 10 s


async def test_the_answer_of_a_collector_may_be_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its body would be in memory, or keep the next spans waiting for good."""
    hung_up = threading.Event()

    def answer() -> None:
        connection, _ = endless.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(1000):  # 64 MB
                connection.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")
            return
        hung_up.set()

    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with socket.create_server(("127.0.0.1", 0)) as endless:
        threading.Thread(target=answer, daemon=True).start()
        monkeypatch.setenv(OTLP, f"http://127.0.0.1:{endless.getsockname()[1]}")
        async with client(tmp_path) as asking:
            assert (await asking.post("/tts", json={"phonemes": "hˈIlO."})).status_code == 200
            assert await asyncio.to_thread(hung_up.wait, 30)


@pytest.mark.parametrize("header", ["tracestate", "traceparent"])
async def test_a_wrong_header_does_not_fill_the_log(
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    header: str,
) -> None:
    monkeypatch.setenv(OTLP, collector.url)
    headers = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", header: "x" * 7000}
    async with client(tmp_path) as asking:
        assert (await asking.post("/tts", json={"phonemes": "hˈIlO."}, headers=headers)).status_code == 200
    assert [record.name for record in caplog.records if record.name.startswith("opentelemetry")] == []
