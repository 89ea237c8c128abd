"""Clients that send too much, too slowly, or on too many connections: refused in a few words, at nobody's cost."""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests import servers
from tests.servers import Server

PATIENCE = 60  # seconds
HEAD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UPGRADE = (
    b"GET /tts/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
MAX_CONNECTIONS = 8
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has no G2P: what is asked of it here needs none."""
    with servers.running(
        servers.TINY,
        tmp_path_factory.mktemp("limits") / "log",
        G2P_SERVICE_URL="http://127.0.0.1:9",
        READ_TIMEOUT="1.5",
        MAX_CONNECTIONS=str(MAX_CONNECTIONS),
        CORS_ORIGINS=PAGE,
    ) as server:
        yield server
        assert "Traceback" not in server.lines()


@contextlib.contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port), PATIENCE) as client:
        yield client


def read_to_end(client: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(65_536):
            received += data
    return received


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def error_code(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"])


def assert_well(server: Server) -> None:
    assert httpx.post(f"{server.url}/tts", json={"phonemes": "wˈʌn."}, timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize(
    ("request_bytes", "refused"),
    [
        (HEAD + b"A: " + b"x" * 5_000_000 + b"\r\n\r\n", (431, "headers_too_large")),
        (HEAD + b"A: " + b"x" * 5_000_000, (431, "headers_too_large")),
        (HEAD + b"A: b\r\n" * 100 + b"\r\n", (431, "headers_too_large")),
        (HEAD + b"A: " + b"x" * 8_000 + b"\r\n\r\n", (431, "headers_too_large")),
        (UPGRADE + b"A: " + b"x" * 10_000 + b"\r\n\r\n", (431, "headers_too_large")),
        (HEAD.replace(b"/live", b"/live?" + b"x" * 8_000) + b"\r\n", (414, "uri_too_long")),
        (b"\x16\x03\x01\x02\x00\x01\x00", (400, "bad_request")),  # TLS
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", (400, "bad_request")),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, "bad_request")),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", (400, "bad_request")),
    ],
    ids=["header", "endless header", "headers", "8 kB", "WebSocket", "path", "TLS", "no colon", "CONNECT", "chunk"],
)
def test_heads_that_are_refused(server: Server, request_bytes: bytes, refused: tuple[int, str]) -> None:
    with connected(server) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(request_bytes)
        answer = read_to_end(client)
    assert (status(answer), error_code(answer)) == refused
    assert b"connection: close" in answer
    assert_well(server)


def test_many_and_large_headers_are_allowed(server: Server) -> None:
    with connected(server) as client:
        client.sendall(HEAD + b"Connection: close\r\n" + b"A: " + b"x" * 7_000 + b"\r\n" + b"B: c\r\n" * 90 + b"\r\n")
        assert status(read_to_end(client)) == 200


@pytest.mark.parametrize(
    "head",
    [POST, b"POST /jobs/preview HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"],
    ids=["JSON", "upload"],
)
def test_what_was_sent_fast_buys_no_time(server: Server, head: bytes) -> None:
    """Five megabytes at once: at a thousand bytes a second, they would have paid for more than an hour of silence."""
    with connected(server) as client:
        part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        client.sendall(head + b"Content-Length: 9000000\r\n\r\n" + part + b" " * 5_000_000)
        answer = read_to_end(client)
    assert (status(answer), error_code(answer)) == (408, "request_timeout")
    assert_well(server)


@pytest.mark.parametrize(
    ("beginning", "trickle"),
    [
        (b"GET / HTTP", b""),
        (HEAD, b"A: b\r\n"),
        (POST + b"Content-Length: 10000\r\n\r\n", b""),
        (POST + b"Content-Length: 10000\r\n\r\n", b" "),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["head stops", "head trickles", "body stops", "body trickles", "chunks trickle"],
)
def test_a_slow_request_times_out(server: Server, beginning: bytes, trickle: bytes) -> None:
    with connected(server) as client:
        client.sendall(beginning)
        answer = trickled(client, trickle)
        assert (status(answer), error_code(answer)) == (408, "request_timeout")
        assert b"READ_TIMEOUT" in answer
    assert_well(server)


def trickled(client: socket.socket, bit: bytes) -> bytes:
    """All that the server sends while it is sent a bit every now and then."""
    answer = b""
    client.settimeout(0.2)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if not (data := client.recv(65_536)):
                return answer
            answer += data
        except TimeoutError:
            client.sendall(bit)
    raise AssertionError("the server waits for ever")


@pytest.mark.parametrize("bit", [b"", b"\r\n"], ids=["nothing", "empty lines"])
def test_a_connection_without_a_request_is_closed(server: Server, bit: bytes) -> None:
    with connected(server) as client, contextlib.suppress(ConnectionError):
        assert trickled(client, bit) == b""


def test_a_connection_is_kept_for_the_next_request(server: Server) -> None:
    """Longer than httpx keeps one, 5 s: a request that is sent while the server closes its connection is lost."""
    with connected(server) as client:
        for pause in (6.5, 0):
            client.sendall(HEAD + b"\r\n")
            answer = HTTPResponse(client)
            answer.begin()
            assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
            time.sleep(pause)


@pytest.mark.parametrize("bit", [b"", b"\r\n"], ids=["nothing", "empty lines"])
def test_when_half_of_the_connections_are_in_use_idle_ones_are_closed(server: Server, bit: bytes) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(MAX_CONNECTIONS // 2 + 1)]
        for client in clients:
            client.sendall(HEAD + b"\r\n")
            answer = HTTPResponse(client)
            answer.begin()
            assert answer.read() == b'{"status":"ok"}'

        def one_is_closed() -> bool:
            """Another process may keep its own: a place is free by then."""
            for client in clients:
                client.sendall(bit)
            closed, *_ = select.select(clients, [], [], 0.2)
            return any(client.recv(1) == b"" for client in closed)

        with contextlib.suppress(ConnectionError):
            servers.wait_for(one_is_closed, PATIENCE)


def test_requests_that_come_together_or_in_bits_are_answered_in_order(server: Server) -> None:
    speech = json.dumps({"phonemes": "wˈʌn."}).encode()
    requests = POST + b"Content-Length: %d\r\n\r\n" % len(speech) + speech + HEAD + b"\r\n"
    requests += b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for size in (len(requests), 7):
        with connected(server) as client:
            for start in range(0, len(requests), size):
                client.sendall(requests[start : start + size])
            answers = read_to_end(client)
        assert re.findall(rb"HTTP/1\.1 (\d+)", answers) == [b"200", b"200", b"404"]


def test_the_rest_of_a_body_that_is_too_large_does_not_disturb_the_next_request(server: Server) -> None:
    with connected(server) as client:
        client.sendall(POST + b"Content-Length: 11000000\r\n\r\n" + b" " * 5_000_000)
        assert status(client.recv(65_536)) == 413
        client.sendall(b" " * 6_000_000 + HEAD + b"\r\n")
        assert status(client.recv(65_536)) == 200


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/tts", "/tts/batch", "/v1/audio/speech", "/nowhere"])
def test_200_megabytes_are_not_kept(server: Server, path: str, chunked: bool) -> None:
    before = peak_memory(server)
    part = b" " * 1_000_000
    with connected(server) as client:
        length = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: 200000000\r\n\r\n"
        client.sendall(POST.replace(b"/tts", path.encode(), 1) + length)
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                client.sendall(b"f4240\r\n" + part + b"\r\n" if chunked else part)
        expected = {"/nowhere": 404, "/v1/audio/speech": 400}.get(path, 413)
        assert status(client.recv(65_536)) == expected
    assert peak_memory(server) - before < 60_000
    assert_well(server)


def peak_memory(server: Server) -> int:
    """In kB, of all of the server's processes."""
    pids = (server.process.pid, *servers.family(server.process.pid))
    peaks = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in pids]
    assert all(peaks)
    return sum(int(peak[1]) for peak in peaks if peak)


def test_a_websocket_message_is_read_up_to_its_limit(server: Server) -> None:
    url = server.url.replace("http", "ws") + "/tts/ws"
    with connect(url) as client:
        client.recv()
        client.send('{"type": "append", "text": "' + "😀" * 16_000 + '"}')  # 64,030 bytes
        client.send("x" * 16_385)
        error = next(event for event in map(json.loads, client) if event["type"] == "error")
        assert error["code"] == "text_too_long"
        with pytest.raises(ConnectionClosedError) as closed:
            send_and_receive(client, "x" * 5_000_000)
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1009
    assert "65536" in closed.value.rcvd.reason


@pytest.mark.parametrize("behind", [b"\x89\x80\0\0\0\0", b"\x88\x82\0\0\0\0\x03\xe8"], ids=["ping", "close"])
def test_bad_utf8_before_another_frame(server: Server, behind: bytes) -> None:
    """The connection ends in order, and what the client did is no error of the server."""
    with connected(server) as client:
        client.sendall(UPGRADE + b"\r\n")
        assert b" 101 " in client.recv(4096)
        client.sendall(b"\x81\x81\0\0\0\0\xff" + behind)
        closing = read_to_end(client)
        assert b"must be UTF-8" in closing or behind.startswith(b"\x88")  # a client that closes is told nothing more
    assert "Fatal error" not in server.lines()
    assert "Traceback" not in server.lines()
    assert_well(server)


def test_a_refused_handshake_is_no_error_of_the_server(server: Server) -> None:
    with connected(server) as client:
        client.sendall(UPGRADE + b"Origin: https://evil.example\r\n\r\n")
        assert status(read_to_end(client)) == 403
    assert "without completing handshake" not in server.lines()


def send_and_receive(client: ClientConnection, message: str) -> None:
    client.send(message)
    for _ in client:
        pass


def test_too_many_connections(server: Server) -> None:
    url = server.url.replace("http", "ws") + "/tts/ws"
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connect(url)).recv()
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            refused = client.post("/tts", json={"phonemes": "wˈʌn."}, headers={"Origin": PAGE})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_busy")
            assert "MAX_CONNECTIONS" in refused.json()["error"]["message"]
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["x-request-id"]
            assert refused.headers["access-control-allow-origin"] == PAGE  # so that the page can read why
            assert client.post("/v1/audio/speech", json={"input": "Hi."}).json()["error"]["type"] == "rate_limit_error"
            assert client.get("/health/live").status_code == 200
            assert client.get("/metrics").status_code == 200
        with pytest.raises(InvalidStatus) as rejected:
            connect(url)
        assert rejected.value.response.status_code == 429
        with contextlib.ExitStack() as crowd:
            for _ in range(60):
                crowd.enter_context(connected(server))
            last = crowd.enter_context(connected(server))
            assert status(read_to_end(last)) == 429  # without having asked
    deadline = time.monotonic() + PATIENCE
    while httpx.post(f"{server.url}/tts", json={"phonemes": "wˈʌn."}, timeout=PATIENCE).status_code == 429:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert_well(server)
