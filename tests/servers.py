"""Real server processes for tests."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PYTHON = os.environ.get("SERVER_PYTHON", sys.executable)  # which runs the servers
READY = re.compile(r"Server is ready at (http://\S+)")
WYOMING = re.compile(r"Wyoming, for Home Assistant, is at (tcp://\S+)")
CHILD = re.compile(r"g2p child .*pid=(\d+)")
START_TIMEOUT = 300  # seconds; a loaded machine with two cores can be slow
REAL = ("-m", "kokoro_server", "serve")
CLUSTER = ("-m", "kokoro_server", "cluster", "up", "--replicas", "2", "--cpus", "1")
if os.environ.get("TEST_CLUSTER"):  # the tests of the endpoints, through Ray Serve
    REAL = CLUSTER
TINY = ("-m", "tests.services.tiny")
FAULTY = ("-m", "tests.services.faulty")
SOAK = ("-m", "tests.services.soak")
# SERVER_PROCESSES=2 in the environment makes all servers of the tests have so many fronts. What looks into a server's
# own process then has nothing to see.
HAS_FRONTS = int(os.environ.get("SERVER_PROCESSES") or 1) > 1
in_one_process = pytest.mark.skipif(HAS_FRONTS, reason="one process alone")
with_fronts = pytest.mark.skipif(not HAS_FRONTS, reason="several processes alone: SERVER_PROCESSES=2")


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def lines(self) -> str:
        return self.log.read_text(errors="replace")

    def child_pid(self) -> int:
        """The G2P child that runs now."""
        return int(CHILD.findall(self.lines())[-1])

    @property
    def wyoming(self) -> str:
        """The address of its Wyoming port, where it has one."""
        return WYOMING.findall(self.lines())[0]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def free_port() -> int:
    """For a setting in which 0 does not mean a free one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def spawn(arguments: tuple[str, ...], log: Path, **environ: str) -> subprocess.Popen[bytes]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KOKORO_", "G2P_"))}
    if cache := os.environ.get("KOKORO_CACHE_DIR"):
        clean["KOKORO_CACHE_DIR"] = cache
    if asked := os.environ.get("TEST_BACKEND"):
        clean["KOKORO_BACKEND"] = asked
    given = {"PORT": "0", "JOBS_PATH": str(log.parent / "jobs")} | environ
    with log.open("wb") as stream:
        null = subprocess.DEVNULL  # no terminal, as a service has none
        command = [PYTHON, *arguments]
        return subprocess.Popen(command, cwd=ROOT, stdin=null, stderr=stream, stdout=stream, env=clean | given)


@contextlib.contextmanager
def running(arguments: tuple[str, ...], log: Path, **environ: str) -> Iterator[Server]:
    process = spawn(arguments, log, **environ)
    try:
        yield Server(process, _wait_for_url(process, log), log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


def _wait_for_url(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if found := READY.search(log.read_text(errors="replace")):
            return found.group(1)
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
    raise AssertionError(f"the server was not ready in {START_TIMEOUT} s:\n{log.read_text(errors='replace')}")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    except FileNotFoundError:
        return False
    except OSError:
        return False


def family(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for task in list(Path(f"/proc/{parent}/task").iterdir()):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has
                    found += map(int, (task / "children").read_text().split())
    return found[1:]


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """For what comes to be true by itself."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_idle(server: Server) -> bool:
    """Whether no row is on its way to the engines or on them."""
    status = httpx.get(f"{server.url}/health/batching").json()["queue_status"]
    return not any(status[name] for name in ("preparing", "current_size", "running_rows"))


def say(server: Server, text: str, **fields: object) -> httpx.Response:
    return httpx.post(f"{server.url}/tts", json={"text": text, **fields}, timeout=300)


def assert_same_audio(one: bytes, other: bytes) -> None:
    """32-bit float samples that differ by no more than rounding."""
    a, b = np.frombuffer(one, "<f4"), np.frombuffer(other, "<f4")
    assert a.shape == b.shape
    difference = np.sqrt(np.mean((a - b) ** 2)) / np.sqrt(np.mean(b**2))
    assert difference < 1e-3, f"{20 * np.log10(difference):.1f} dB"


@contextlib.contextmanager
def without_files(server: Server, spare: int = 0) -> Iterator[None]:
    """The server, of one process, can open no more than `spare` files."""
    pid = server.process.pid
    used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    free = [number for number in range(len(used) + spare + 1) if number not in used]
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[spare], hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def said(server: Server, target: Path, text: str, *options: str) -> bytes:
    """The file that `kokoro-server say` writes with this server."""
    command = [PYTHON, "-m", "kokoro_server", "say", text, "--url", server.url, "-o", str(target), *options]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return target.read_bytes()
