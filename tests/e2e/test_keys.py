"""A server with API keys, as its clients find it: OpenAI's, ours, WebSockets, the commands."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from kokoro_server.client import KokoroClient, ServerError, Timeouts
from tests import servers
from tests.servers import ROOT, Server

ALICE, BOB, WRONG = "alices-secret-key", "bobs-secret-key", "no-such-secret-key"
BEARER = {"Authorization": f"Bearer {ALICE}"}
PATIENT = Timeouts(health=60, synthesis=300, stream=300)  # of a machine that is busy with other tests


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, shared_g2p: str) -> Iterator[Server]:
    """A server with two keys, one of them in a file, that logs all it can. At its end the log must hold no key."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(f"# the kitchen radio\nbob={BOB}\n")
    environ = {"API_KEYS": f"alice={ALICE}", "API_KEYS_FILE": str(folder / "keys"), "LOG_LEVEL": "debug"}
    with servers.running(servers.TINY, folder / "log", **environ, G2P_SERVICE_URL=shared_g2p) as server:
        yield server
    assert "caller=alice" in server.lines()
    for key in (ALICE, BOB, WRONG):
        assert key not in server.lines()
        assert subprotocol(key) not in server.lines()


def subprotocol(key: str) -> Subprotocol:
    return Subprotocol("key." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("="))


def test_openais_client_raises_its_own_error(locked: Server) -> None:
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key=ALICE, timeout=300) as client:
        assert client.audio.speech.create(model="tts-1", voice="af_heart", input="Hello.").content
    with (
        openai.OpenAI(base_url=f"{locked.url}/v1", api_key=WRONG, timeout=300) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.audio.speech.create(model="tts-1", voice="af_heart", input="Hello.")
    assert caught.value.code == "invalid_api_key"


def test_our_client_sends_its_key(locked: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with KokoroClient(locked.url, api_key=BOB, timeouts=PATIENT) as client:
        assert client.health()["status"] == "ok"
        assert client.synthesize("Hello.").content
        assert b"".join(client.stream("Hello."))
    with (
        KokoroClient(locked.url, timeouts=PATIENT) as client,
        pytest.raises(ServerError, match="needs an API key") as caught,
    ):
        client.voices()
    assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")
    monkeypatch.setenv("KOKORO_API_KEY", ALICE)
    with KokoroClient(locked.url, timeouts=PATIENT) as client:
        assert client.voices()


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kokoro_server", *arguments],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)} | environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_commands_send_the_key_of_the_environment(locked: Server, tmp_path: Path) -> None:
    file = tmp_path / "hello.wav"
    said = command("say", "Hello.", "--url", locked.url, "-o", str(file), KOKORO_API_KEY=ALICE)
    assert (said.returncode, file.exists()) == (0, True), said.stderr
    listed = command("voices", "--url", locked.url, KOKORO_API_KEY=ALICE)
    assert "af_heart" in listed.stdout
    refused = command("voices", "--url", locked.url, KOKORO_API_KEY=WRONG)
    assert refused.returncode == 1
    assert "API key" in refused.stderr
    for result in (said, listed, refused):
        assert "secret" not in result.stdout + result.stderr
        assert "not a setting" not in result.stderr


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/", "/docs", "/openapi.json", "/web/app.js"])
def test_what_needs_no_key(locked: Server, path: str) -> None:
    assert httpx.get(locked.url + path).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/config", "/metrics", "/voices", "/v1/models", "/tts", "/nowhere"])
def test_what_needs_one(locked: Server, path: str) -> None:
    answer = httpx.get(locked.url + path)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="Kokoro Server"')
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["x-request-id"]


def test_what_is_told_about_the_server_names_no_key(locked: Server) -> None:
    assert httpx.get(f"{locked.url}/config", headers=BEARER).json()["API_KEYS"] == ["alice"]
    for path in ("/config", "/health", "/metrics", "/openapi.json"):
        assert "secret" not in httpx.get(locked.url + path, headers=BEARER).text
    metrics = httpx.get(f"{locked.url}/metrics", headers=BEARER).text
    assert re.search(r'^tts_key_requests_total{key="alice"} [1-9]', metrics, re.MULTILINE)
    assert 'tts_key_requests_total{key="bob"}' in metrics


def test_a_refused_body_is_not_waited_for(locked: Server) -> None:
    address = urlsplit(locked.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(f"POST /tts HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: 1000000\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("way", ["header", "query", "subprotocol"])
def test_a_websocket_with_a_key(locked: Server, way: str) -> None:
    url = locked.url.replace("http", "ws") + "/tts/ws"
    offered = [Subprotocol("kokoro"), subprotocol(BOB)] if way == "subprotocol" else None
    url += f"?api_key={BOB}" if way == "query" else ""
    headers = {"X-API-Key": BOB} if way == "header" else None
    with connect(url, additional_headers=headers, subprotocols=offered) as agent:
        assert agent.subprotocol == ("kokoro" if offered else None)
        assert json.loads(agent.recv(60))["type"] == "ready"


def logged_within(server: Server, text: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while text not in server.lines():
        assert time.monotonic() < deadline, f"not logged: {text}"
        time.sleep(0.05)


def test_a_websocket_without_one_is_told_why(locked: Server) -> None:
    url = locked.url.replace("http", "ws") + "/tts/ws"
    for address in (url, f"{url}?api_key={WRONG}"):
        with pytest.raises(InvalidStatus) as caught, connect(address):
            pass
        response = caught.value.response
        assert response.status_code == 401
        assert json.loads(response.body or b"")["error"]["code"] == "invalid_api_key"
        logged_within(locked, response.headers["x-request-id"])


def test_on_loopback_a_foreign_page_gets_nothing(tiny_server: Server) -> None:
    """The server has no keys, yet no page of another origin can use it, nor one that takes its address for its own."""
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(tiny_server.url.replace("http", "ws") + "/tts/ws", origin="https://evil.example"),
    ):
        pass
    assert caught.value.response.status_code == 403
    rebound = httpx.get(f"{tiny_server.url}/voices", headers={"Host": "evil.example:8880"})
    assert rebound.status_code == 403
    assert "ALLOWED_HOSTS" in rebound.json()["error"]["message"]
    foreign = httpx.post(f"{tiny_server.url}/tts", json={"text": "Hello."}, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert "CORS_ORIGINS" in foreign.json()["error"]["message"]


def test_without_keys_a_server_that_others_can_reach_says_so_once(tmp_path: Path, shared_g2p: str) -> None:
    environ = {"HOST": "0.0.0.0", "RATE_LIMIT": "2", "MAX_CONCURRENT_REQUESTS": "1", "G2P_SERVICE_URL": shared_g2p}
    with servers.running(servers.TINY, tmp_path / "log", **environ) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert server.lines().count("API_KEYS") == 1
        with connect(url.replace("http", "ws") + "/tts/ws") as agent:
            agent.recv(60)
            busy = httpx.post(f"{url}/tts", json={"text": "Hello."})
            assert (busy.status_code, busy.json()["error"]["code"]) == (429, "too_many_at_once")
        answers = [httpx.post(f"{url}/tts", json={}) for _ in range(40)]
        assert 422 in [answer.status_code for answer in answers]
        assert answers[-1].json()["error"]["code"] == "rate_limited"
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
        # No proxy is named: a header does not make another caller of this one.
        posing = [httpx.post(f"{url}/tts", json={}, headers={"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(3)]
        assert [answer.status_code for answer in posing] == [429, 429, 429]
        assert server.lines().count("FORWARDED_ALLOW_IPS=127.0.0.1") == 1
        assert httpx.get(f"{url}/voices", headers={"Host": "any.example"}).status_code == 403


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"API_KEYS": "just-a-secret-key"}, "API_KEYS: entry 1 is not name=key"),
        ({"API_KEYS_FILE": "/nowhere/keys"}, "API_KEYS_FILE=/nowhere/keys: No such file"),
    ],
)
def test_bad_keys_stop_the_start_in_one_line(environ: dict[str, str], message: str) -> None:
    stopped = command("serve", **environ)
    assert stopped.returncode == 1
    assert message in stopped.stderr
    assert "just-a-secret-key" not in stopped.stderr
    assert "Traceback" not in stopped.stderr
