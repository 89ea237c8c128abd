"""Servers that `serve_bench` starts, and stops again."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests import servers
from tests.servers import Server


@contextmanager
def running(target: tuple[str, ...], log: Path, **environ: str) -> Iterator[Server]:
    """A server; when something fails, show what it said last."""
    try:
        with servers.running(target, log, **environ) as server:
            yield server
    except BaseException:
        print(*log.read_text(errors="replace").splitlines()[-40:], sep="\n", flush=True)
        raise


@contextmanager
def g2p_service(log: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = servers.spawn(("-m", "kokoro_server", "g2p", "--port", str(port)), log)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(process, url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    late = time.monotonic() + servers.START_TIMEOUT
    while time.monotonic() < late and process.poll() is None:
        try:
            httpx.get(f"{url}/health", trust_env=False).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise RuntimeError(f"no G2P service at {url}")
