"""Foreign web pages, and clients with an Origin or an unusual Host, before a server without keys on all addresses.

The headers are those that Chrome and Firefox send. Over plain HTTP to another machine they leave out Sec-Fetch-Site.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests import servers
from tests.servers import Server

EVIL = "https://evil.example"
LINES = json.dumps({"items": [{"text": "Hello."}]}).encode()
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="list.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\nHello.\r\n--x--\r\n"
)
PLAIN = {"Content-Type": "text/plain;charset=UTF-8"}
JSON = {"Content-Type": "application/json"}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}
REBOUND = {"Host": "evil.example:8880"}
SOCKETS = (
    "/tts/ws",
    "/v1/speak",
    "/deepgram/v1/speak",
    "/cartesia/tts/websocket",
    "/v1/text-to-speech/af_heart/stream-input",
    "/v1/text-to-speech/af_heart/multi-stream-input",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has no G2P: what is asked of it here needs none."""
    log = tmp_path_factory.mktemp("open") / "log"
    environ = {"HOST": "0.0.0.0", "G2P_SERVICE_URL": "http://127.0.0.1:9", "WYOMING_PORT": str(servers.free_port())}
    with servers.running(servers.TINY, log, **environ) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        yield server


def ask(server: Server, method: str, path: str, *headers: dict[str, str], body: bytes = b"") -> httpx.Response:
    merged = {name: value for each in headers for name, value in each.items()}
    return httpx.request(method, f"{server.url}{path}", headers=merged, content=body, timeout=60)


def jobs(server: Server) -> list[object]:
    listed: list[object] = httpx.get(f"{server.url}/jobs", timeout=60).json()["jobs"]
    return listed


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ((MULTIPART, {"Origin": EVIL}), FORM, "origin_not_allowed"),
        ((MULTIPART, {"Origin": EVIL}, CROSS_SITE), FORM, "origin_not_allowed"),
        ((PLAIN, {"Origin": EVIL}), LINES, "origin_not_allowed"),
        ((PLAIN, {"Origin": "null"}), LINES, "origin_not_allowed"),  # of a sandboxed frame
        ((PLAIN, {"Origin": "http://localhost.evil.example"}), LINES, "origin_not_allowed"),
        ((PLAIN, {"Origin": "http://192.168.1.66"}), LINES, "origin_not_allowed"),
        ((PLAIN, CROSS_SITE), LINES, "origin_not_allowed"),
        (({"Origin": EVIL},), LINES, "origin_not_allowed"),  # a Blob without a type
        ((PLAIN, REBOUND, {"Origin": "http://evil.example:8880"}), LINES, "host_not_allowed"),
        ((JSON, REBOUND, {"Sec-Fetch-Site": "same-origin"}), LINES, "host_not_allowed"),
    ],
)
def test_no_foreign_page_posts_a_job(server: Server, headers: tuple[dict[str, str]], body: bytes, code: str) -> None:
    answer = ask(server, "POST", "/jobs", *headers, body=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)
    setting = {"origin_not_allowed": "CORS_ORIGINS", "host_not_allowed": "ALLOWED_HOSTS=evil.example"}[code]
    assert setting in answer.json()["error"]["message"]
    assert "access-control-allow-origin" not in answer.headers
    assert jobs(server) == []


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/jobs"), ("DELETE", "/jobs/AAAAAAAAAAAAAAAA"), ("GET", "/config")]
)
def test_a_page_whose_name_is_made_to_point_here_reads_and_deletes_nothing(
    server: Server, method: str, path: str
) -> None:
    answer = ask(server, method, path, REBOUND, {"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize("path", SOCKETS)
def test_no_foreign_page_opens_a_websocket(server: Server, path: str) -> None:
    with pytest.raises(InvalidStatus) as caught, connect(server.url.replace("http", "ws") + path, origin=EVIL):
        pass
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize(
    "type", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]
)
def test_what_a_page_sends_without_a_preflight_is_no_json(server: Server, type: str | None) -> None:
    """Not even of a page that may use the server: the type is a second fence."""
    headers = {"Origin": "http://localhost:3000"} | ({"Content-Type": type} if type else {})
    answer = ask(server, "POST", "/tts/captioned", headers, body=b'{"phonemes": "w\xcb\x88\xca\x8cn."}')
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "not_json")
    assert "application/json" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "host",
    [
        "host.docker.internal:8880",  # Open WebUI in Docker
        "gateway.docker.internal:8880",
        "host.containers.internal:8880",  # Podman
        "kokoro:8880",  # a service of Docker Compose
        "kokoro.speech.svc.cluster.local",  # of Kubernetes
        "192.168.1.20:8880",
        "[fd00::20]:8880",
        "nas.local:8880",
        "nas.lan",
        "nas.home.arpa",
        socket.gethostname(),
    ],
)
def test_programs_that_know_the_server_by_a_private_name_are_served(server: Server, host: str) -> None:
    """Open WebUI, AnythingLLM, SillyTavern, Home Assistant: no browser sends these, and so no Origin."""
    assert ask(server, "GET", "/v1/audio/voices", {"Host": host}).status_code == 200
    body = b'{"phonemes": "w\xcb\x88\xca\x8cn."}'
    assert ask(server, "POST", "/tts", {"Host": host}, JSON, body=body).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "http://127.0.0.1:5173",
        "http://[::1]:8000",
        "http://tauri.localhost",
        "chrome-extension://dcpkigedlhbcofnpdnjdlbhjckeomlip",
        "moz-extension://3c6a9a4f-0a0e-4d3a-9d8e-1f7b2a4c5d6e",
        "safari-web-extension://5A1B2C3D-0000-4000-8000-123456789ABC",
        "app://obsidian.md",
        "tauri://localhost",
        "capacitor://localhost",
        "vscode-webview://1hq7k2e5v0g3",
        "file://",
    ],
)
def test_pages_of_this_machine_extensions_and_apps_are_served(server: Server, origin: str) -> None:
    site = {"Sec-Fetch-Site": "same-site" if "localhost" in origin else "cross-site", "Sec-Fetch-Mode": "cors"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    preflight = ask(server, "OPTIONS", "/v1/audio/speech", {"Origin": origin}, site, asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert preflight.headers["access-control-allow-headers"] == asked["Access-Control-Request-Headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    spoken = ask(server, "POST", "/tts", {"Origin": origin}, site, JSON, body=b'{"phonemes": "w\xcb\x88\xca\x8cn."}')
    assert (spoken.status_code, spoken.headers["access-control-allow-origin"]) == (200, origin)
    with connect(server.url.replace("http", "ws") + "/tts/ws", origin=origin) as agent:  # type: ignore[arg-type]
        assert json.loads(agent.recv(60))["type"] == "ready"


def test_the_servers_own_page_is_served_wherever_it_is_opened(server: Server) -> None:
    """Over plain HTTP in a local network, the Origin alone says that the page is the server's own."""
    own = {"Host": "192.168.1.20:8880", "Origin": "http://192.168.1.20:8880"}
    assert ask(server, "POST", "/tts", own, JSON, body=b'{"phonemes": "w\xcb\x88\xca\x8cn."}').status_code == 200
    assert ask(server, "POST", "/jobs/preview", own, MULTIPART, body=FORM).status_code == 200
    assert ask(server, "GET", "/", {"Host": "192.168.1.20:8880", "Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_a_program_may_leave_the_type_out(server: Server) -> None:
    """`curl -d` says that JSON is a form. No browser is involved, as there is no Origin."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert ask(server, "POST", "/jobs/preview", form, body=LINES).status_code == 200


def test_probes_are_answered_by_any_name(server: Server) -> None:
    answer = ask(server, "GET", "/health/ready", {"Host": "speech.example.org"})
    assert answer.status_code in (200, 503)  # there is no G2P here


def test_a_page_that_posts_to_the_wyoming_port_is_refused_at_its_first_line(server: Server) -> None:
    address = urlsplit(server.wyoming.replace("0.0.0.0", "127.0.0.1"))
    event = json.dumps({"type": "synthesize", "data": {"text": "Hello."}}).encode()
    with socket.create_connection((address.hostname, address.port), timeout=60) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nOrigin: null\r\nContent-Length: 99\r\n\r\n" + event + b"\n")
        answer = b""
        while data := client.recv(65_536):
            answer += data
    assert b"not a Wyoming event" in answer
    assert b"audio" not in answer


def test_with_keys_and_a_named_proxy(tmp_path: Path) -> None:
    """Any name will do, and callers are counted by the addresses that the proxy forwards."""
    environ = {
        "HOST": "0.0.0.0",
        "G2P_SERVICE_URL": "http://127.0.0.1:9",
        "API_KEYS": "alice=alices-secret",
        "RATE_LIMIT": "1",
        "FORWARDED_ALLOW_IPS": "10.0.0.0/8, 127.0.0.1",
    }
    with servers.running(servers.TINY, tmp_path / "log", **environ) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        key = {"X-API-Key": "alices-secret", "Host": "speech.example.org"}
        assert ask(server, "GET", "/voices", key).status_code == 200
        assert ask(server, "GET", "/voices", {"Host": "speech.example.org"}).status_code == 401
        asked = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
        assert ask(server, "OPTIONS", "/tts", asked).status_code == 403
        guesses = [{"X-API-Key": "a-guess", "X-Forwarded-For": f"192.0.2.{number}"} for number in (1, 1, 2)]
        assert [ask(server, "GET", "/voices", guess).status_code for guess in guesses] == [401, 429, 401]
