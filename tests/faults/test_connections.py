"""Old, half-closed and greedy connections, before a real server."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests import servers
from tests.servers import Server, wait_for
from tests.services.faulty import HANGS, LATE_FAILURE, SLOW

PATIENCE = 120  # seconds
MAX_STREAMS = 4
PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˌOvəɹ ðə lˈAzi dˈɔɡ. "
ONE, OTHER = "127.0.0.1", "127.0.0.2"  # addresses of two callers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has no G2P: what is asked of it here needs none."""
    folder = tmp_path_factory.mktemp("connections")
    environ = {"G2P_SERVICE_URL": "http://127.0.0.1:9", "MAX_STREAMS": str(MAX_STREAMS), "QUEUE_TIMEOUT": "600"}
    with servers.running(servers.FAULTY, folder / "log", **environ) as server:
        yield server


def connected(server: Server, source: str = ONE) -> socket.socket:
    url = urlsplit(server.url)
    return socket.create_connection((url.hostname, url.port), PATIENCE, source_address=(source, 0))


def request(path: str, version: str = "1.1", **fields: object) -> bytes:
    body = json.dumps({"phonemes": PHONEMES, **fields}).encode()
    head = f"POST {path} HTTP/{version}\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read_to_end(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65_536), b""))


def state(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.url}/health/batching", timeout=PATIENCE).json()
    return found


def test_an_answer_to_http_1_0_has_no_chunks(server: Server) -> None:
    whole = httpx.post(f"{server.url}/tts/stream", json={"phonemes": PHONEMES, "format": "pcm"}, timeout=PATIENCE)
    with connected(server) as client:
        client.sendall(request("/tts/stream", "1.0", format="pcm"))
        head, _, body = read_to_end(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()
    assert len(body) == len(whole.content)


def test_an_answer_to_http_1_0_that_breaks_has_no_proper_end(server: Server) -> None:
    with connected(server) as client:
        client.sendall(request("/tts/stream", "1.0", format="pcm", phonemes=PHONEMES * 20, speed=LATE_FAILURE))
        with pytest.raises(ConnectionResetError):
            read_to_end(client)


@pytest.mark.parametrize(
    ("version", "path", "speed"),
    [("1.0", "/tts/stream", 1.0), ("1.1", "/tts", 1.0), ("1.0", "/tts", SLOW), ("1.1", "/tts/stream", SLOW)],
)
def test_a_client_that_ends_its_sending_gets_its_answer(server: Server, version: str, path: str, speed: float) -> None:
    """Slow: the server looks for the client more than once before it answers."""
    asked = {"format": "wav", "speed": speed}
    whole = httpx.post(f"{server.url}{path}", json={"phonemes": PHONEMES, **asked}, timeout=PATIENCE).content
    with connected(server) as client:
        client.sendall(request(path, version, **asked))
        client.shutdown(socket.SHUT_WR)
        response = HTTPResponse(client)
        response.begin()
        assert response.status == 200
        assert len(response.read()) == len(whole)


def test_a_client_that_leaves_takes_its_work_with_it(server: Server) -> None:
    """It closes its socket, which at first looks like the end of its sending. Its row waits behind one that hangs."""
    before = state(server)["performance"]["cancelled"]
    with connected(server) as blocking:
        blocking.sendall(request("/tts", speed=HANGS))
        wait_for(lambda: state(server)["queue_status"]["running_rows"])
        with connected(server) as old, connected(server) as new:
            old.sendall(request("/tts", "1.0"))
            new.sendall(request("/tts", "1.1"))
            wait_for(lambda: state(server)["queue_status"]["current_size"] == 2)
        wait_for(lambda: state(server)["performance"]["cancelled"] == before + 2)
        assert state(server)["queue_status"]["running_rows"], "noticed only when its turn came"
        blocking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: not state(server)["queue_status"]["running_rows"])


def agent(server: Server, source: str) -> ClientConnection:
    return connect(f"{server.url.replace('http', 'ws')}/tts/ws", sock=connected(server, source))


@servers.in_one_process  # each process counts for itself
def test_one_caller_with_all_streams_leaves_another_its_share(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_STREAMS):
            stack.enter_context(agent(server, ONE))
        with pytest.raises(InvalidStatus) as refused:
            agent(server, ONE)
        assert refused.value.response.status_code == 429
        for _ in range(MAX_STREAMS // 2):
            stack.enter_context(agent(server, OTHER))
        with pytest.raises(InvalidStatus) as refused:
            agent(server, OTHER)
        assert (refused.value.response.status_code, refused.value.response.headers["Retry-After"]) == (429, "5")


def upload(server: Server, source: str = ONE, size: int = 2_000_000) -> socket.socket:
    """A connection on which half of a file has been sent."""
    client = connected(server, source)
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="list.txt"\r\n\r\n'
    head = "POST /jobs/preview HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    client.sendall(f"{head}Content-Length: {2 * size}\r\n\r\n".encode() + part + b"a" * size)
    return client


def spooled(server: Server, folder: Path) -> int:
    found = 0
    for pid in (server.process.pid, *servers.family(server.process.pid)):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found += folder in link.readlink().parents
            except FileNotFoundError:
                continue
    return found


@servers.in_one_process  # each process counts for itself
def test_uploads_have_a_few_places_for_each_caller_and_lie_on_the_disk_of_the_jobs(server: Server) -> None:
    folder = server.log.parent / "jobs" / "spool"
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(upload(server))
        wait_for(lambda: spooled(server, folder) == 8)
        assert folder.stat().st_mode & 0o777 == 0o700
        with upload(server, size=1_000) as client:
            response = HTTPResponse(client)
            response.begin()
            assert (response.status, response.headers["Retry-After"]) == (429, "5")
            assert "8 uploads" in json.loads(response.read())["error"]["message"]
        stack.enter_context(upload(server, OTHER))
        wait_for(lambda: spooled(server, folder) == 9)
    wait_for(lambda: spooled(server, folder) == 0)
    form = {"file": ("list.txt", b"Hello.\n")}
    assert httpx.post(f"{server.url}/jobs/preview", files=form, timeout=PATIENCE).status_code == 200
