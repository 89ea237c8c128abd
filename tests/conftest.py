from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx
import hypothesis
import pytest

from kokoro_server.assets import library as asset_store
from kokoro_server.assets.library import Assets
from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import Engine
from tests import backends, servers, tiny_model
from tests.servers import Server

# How long an example takes is the machine's business.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def assets() -> Assets:
    """The real weights and voices, fetched once into the user's cache."""
    settings = Settings.load(dotenv=None)
    return asset_store.ensure(settings.cache_dir, settings.asset_source, settings.model_path)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Commands change the environment of their process, which the servers of later tests would inherit."""
    before = dict(os.environ)
    yield
    for name in before.keys() | os.environ.keys():
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Each client of httpx reads all certificates of the machine, for plain HTTP too. The tests make thousands of
    clients, and the certificates take nearly all of the time of a short request.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """A request of httpx that names no timeout has five seconds, which a busy machine may take for anything."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "read", "write", "pool"):
            patch.setattr(f"httpx._config.DEFAULT_TIMEOUT_CONFIG.{name}", 120.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def tiny_files() -> None:
    """Make the tiny model before any server that runs it: the servers read what this process wrote."""
    tiny_model.weights()
    if backends.ASKED == "onnx":
        tiny_model.templates()


@pytest.fixture(scope="session", params=backends.TESTED)
def tiny_engine(request: pytest.FixtureRequest) -> Engine:
    return backends.tiny(request.param)


@pytest.fixture(scope="session", params=backends.TESTED)
def real_engine(request: pytest.FixtureRequest, assets: Assets) -> Engine:
    return backends.real(request.param, assets)


@pytest.fixture(scope="session")
def real_server(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`kokoro-server serve` with the real model, shared by all tests that only ask it things.

    The first piece's length is given, so that it does not hang on how fast this machine happens to be.
    """
    log = tmp_path_factory.mktemp("real") / "log"
    with servers.running(servers.REAL, log, FIRST_CHUNK_MAX_TOKENS="50") as server:
        yield server


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server process with the tiny model, shared by all tests that only ask it things."""
    log = tmp_path_factory.mktemp("tiny") / "log"
    with servers.running(servers.TINY, log, WYOMING_PORT=str(servers.free_port())) as server:
        yield server


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine misbehaves on cue, shared by the faults that it outlives.

    Its timeouts are long, so that nobody is turned away because the machine is slow.
    """
    log = tmp_path_factory.mktemp("faulty") / "log"
    with servers.running(servers.FAULTY, log, QUEUE_TIMEOUT="3600", JOB_TIMEOUT="3600") as server:
        yield server


@pytest.fixture(scope="module")
def shared_g2p(tiny_server: Server) -> str:
    """The address of a G2P service for servers that need not start one of their own: another server's child."""
    url: str = httpx.get(f"{tiny_server.url}/health", timeout=60).json()["g2p"]["url"]
    return url


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "log"
