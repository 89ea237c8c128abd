"""The real G2P service, as its own process: it takes seconds to load, so the tests here share one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from kokoro_server.g2p.client import G2PClient

ROOT = Path(__file__).parents[2]
SOURCE_TREE = {**os.environ, "PYTHONPATH": str(ROOT)}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def service(
    log: Path, workers: int, module: str = "kokoro_server.g2p.service"
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address."""
    command = [sys.executable, "-P", "-m", module, "--workers", str(workers)]
    pipe = subprocess.PIPE
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, env=SOURCE_TREE, text=True) as process,
    ):
        assert process.stdout
        try:
            port = next((line.strip() for line in process.stdout if line.strip()), "")  # an empty one: it still starts
            assert port.isdigit(), log.read_text()
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture(scope="session")
def service_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("g2p") / "service.log"
    with service(log, workers=1) as (process, url):
        assert process.stdin
        assert process.stdout
        yield url
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stdout.read() == ""
        noise = [line for line in log.read_text().splitlines() if not line.startswith(("INFO ", "WARNING left out "))]
        assert noise == []


@pytest.fixture(scope="session")
def http(service_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service_url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
async def client(service_url: str) -> AsyncIterator[G2PClient]:
    client = G2PClient(service_url, 60)
    yield client
    await client.aclose()
