"""Which pages may use the server, and by which names it may be addressed."""

from __future__ import annotations

import pytest

from tests.api.middleware.guard.test_guard import BEARER, KEYS, Gate

EVIL = "https://evil.example"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8880", 200),
        ("localhost", 200),
        ("kokoro.localhost:1", 200),
        ("[::1]:8880", 200),
        ("evil.example:8880", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.1.2:8880", 200),
        ("[fd00::2]", 200),
        ("kokoro", 200),
        ("host.docker.internal:8880", 200),
        ("nas.local.", 200),
        ("local", 200),
        ("notlocal.evil.example", 403),
        ("evil.local.example", 403),
        ("machine.tail1234.ts.net", 403),  # public DNS resolves names of others' there
        ("fritz.box", 403),  # so it does here
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("listening", ["127.0.0.1", "0.0.0.0", "::"])
async def test_without_keys_a_server_answers_to_names_that_no_stranger_can_give_it(
    host: str, status: int, kind: str, listening: str
) -> None:
    gate = Gate(HOST=listening)
    answer = await gate.ask(kind=kind, headers={"host": host})
    assert answer["status"] == (101 if kind == "websocket" and status == 200 else status)
    if status == 403:
        assert '"code":"host_not_allowed"' in answer["body"]
        assert "ALLOWED_HOSTS" in answer["body"]
        assert gate.callers == []


@pytest.mark.parametrize(
    ("environ", "host", "status"),
    [
        ({"ALLOWED_HOSTS": "speech.example.org"}, "speech.example.org:443", 200),
        ({"ALLOWED_HOSTS": "speech.example.org"}, "Speech.Example.ORG", 200),
        ({"ALLOWED_HOSTS": "speech.example.org"}, "a.speech.example.org", 403),
        ({"ALLOWED_HOSTS": "*.example.org"}, "a.b.example.org", 200),
        ({"ALLOWED_HOSTS": "*.example.org"}, "notexample.org", 403),
        ({"ALLOWED_HOSTS": "*"}, "evil.example", 200),
        ({"HOST": "0.0.0.0"}, "anything.example", 403),
        ({"HOST": "speech.example.org"}, "speech.example.org:8880", 200),
        ({"HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.example"}, "b.example", 403),
        ({"HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.example"}, "localhost:8880", 200),
        ({"HOST": "localhost"}, "evil.example", 403),
        ({"HOST": "::1"}, "evil.example", 403),
    ],
)
async def test_other_names_by_setting(environ: dict[str, str], host: str, status: int) -> None:
    assert (await Gate(**environ).ask(headers={"host": host}))["status"] == status


async def test_with_keys_any_name_will_do() -> None:
    assert (await Gate(**KEYS).ask(headers={"host": "evil.example"} | BEARER))["status"] == 200
    assert (await Gate(**KEYS).ask(headers={"host": "evil.example"}))["status"] == 401


async def test_the_message_names_the_setting_and_its_value() -> None:
    refused = await Gate().ask(headers={"host": "speech.example.org:8880"})
    assert "set ALLOWED_HOSTS=speech.example.org or use API keys" in refused["body"]
    refused = await Gate().ask(headers={"origin": "https://page.example"})
    assert "set CORS_ORIGINS=https://page.example" in refused["body"]


async def test_probes_are_answered_by_any_name() -> None:
    answer = await Gate().ask("/health/live", "GET", {"host": "speech.example"})
    assert answer["status"] == 200


async def test_a_unix_socket_has_no_name() -> None:
    assert (await Gate().ask(headers={"host": "whatever.example"}, server="/run/kokoro.sock"))["status"] == 200


LOOPBACK = "127.0.0.1:8880"
PROXIED = {"HOST": "0.0.0.0", "ALLOWED_HOSTS": "*"}


@pytest.mark.parametrize(
    ("environ", "host", "origin", "allowed"),
    [
        ({}, LOOPBACK, "http://127.0.0.1:8880", True),
        ({}, LOOPBACK, "http://localhost:3000", True),
        ({}, LOOPBACK, EVIL, False),
        ({}, LOOPBACK, "null", False),
        ({}, LOOPBACK, "http://localhost.evil.example", False),
        ({"CORS_ORIGINS": EVIL}, LOOPBACK, EVIL, True),
        ({"CORS_ORIGINS": "null"}, LOOPBACK, "null", True),
        ({"CORS_ORIGINS": "https://other.example"}, LOOPBACK, EVIL, False),
        ({"CORS_ORIGINS": "*"}, LOOPBACK, EVIL, True),
        ({"ALLOWED_HOSTS": "speech.example"}, "speech.example", "https://speech.example", True),
        ({"ALLOWED_HOSTS": "speech.example"}, LOOPBACK, "https://speech.example:8443", True),
        ({"ALLOWED_HOSTS": "*"}, "speech.example", "https://speech.example", True),
        ({"ALLOWED_HOSTS": "*"}, "speech.example", EVIL, False),
        (PROXIED, "speech.example", "https://speech.example", True),
        (PROXIED, "speech.example:443", "https://speech.example", True),
        (PROXIED, "speech.example:8443", "https://speech.example:8443", True),
        (PROXIED, "speech.example:8880", "https://speech.example:3000", False),
        (PROXIED, "speech.example", "http://localhost:3000", True),
        (PROXIED, "speech.example", EVIL, False),
    ],
)
async def test_which_pages_may_open_a_websocket(environ: dict[str, str], host: str, origin: str, allowed: bool) -> None:
    gate = Gate(**environ)
    answer = await gate.connect(headers={"host": host, "origin": origin})
    assert answer["status"] == (101 if allowed else 403)
    if not allowed:
        assert '"code":"origin_not_allowed"' in answer["body"]
        assert "CORS_ORIGINS" in answer["body"]
        assert gate.metric('tts_requests_refused_total{reason="origin_not_allowed"} 1.0')


async def test_the_same_origin_behind_a_proxy_that_changes_host() -> None:
    headers = {"origin": "https://speech.example", "sec-fetch-site": "same-origin"}
    assert (await Gate().connect(headers=headers))["status"] == 101
    assert (await Gate().connect(headers=headers | {"sec-fetch-site": "cross-site"}))["status"] == 403


@pytest.mark.parametrize("listening", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_other_requests_of_foreign_pages_are_refused_wherever_the_server_listens(
    listening: str, method: str
) -> None:
    refused = await Gate(HOST=listening).ask(method=method, headers={"origin": EVIL})
    assert refused["status"] == 403
    assert "access-control-allow-origin" not in refused["headers"]


async def test_with_keys_the_key_decides_and_the_browser_hides_the_answer() -> None:
    """A proxy may pass a page's requests on with another Host. No foreign page gets past the preflight."""
    answer = await Gate(**KEYS).ask(headers={"origin": EVIL} | BEARER)
    assert answer["status"] == 200
    assert "access-control-allow-origin" not in answer["headers"]


async def test_chrome_asks_whether_a_public_page_may_reach_a_private_address() -> None:
    asked = {"origin": EVIL, "access-control-request-method": "POST", "access-control-request-private-network": "true"}
    answer = await Gate(CORS_ORIGINS=EVIL).ask(method="OPTIONS", headers=asked)
    assert answer["headers"]["access-control-allow-private-network"] == "true"


async def test_a_listed_page_may_read_the_answer_and_its_headers() -> None:
    answer = await Gate(CORS_ORIGINS=EVIL).ask(headers={"origin": EVIL})
    assert answer["headers"]["access-control-allow-origin"] == EVIL
    assert answer["headers"]["access-control-expose-headers"] == "*"
    assert answer["headers"]["vary"] == "Origin"
    answer = await Gate(CORS_ORIGINS="*").ask(headers={"origin": EVIL})
    assert answer["headers"]["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in (await Gate(CORS_ORIGINS=EVIL).ask())["headers"]


async def test_a_listed_page_can_read_why_it_was_refused() -> None:
    answer = await Gate(**KEYS, CORS_ORIGINS=EVIL).ask(headers={"origin": EVIL})
    assert (answer["status"], answer["headers"]["access-control-allow-origin"]) == (401, EVIL)


async def test_a_preflight_needs_no_key() -> None:
    gate = Gate(**KEYS, CORS_ORIGINS=EVIL)
    asked = {
        "origin": EVIL,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
    }
    answer = await gate.ask(method="OPTIONS", headers=asked)
    assert (answer["status"], answer["body"]) == (204, "")
    assert answer["headers"]["access-control-allow-origin"] == EVIL
    assert answer["headers"]["access-control-allow-headers"] == asked["access-control-request-headers"]
    assert answer["headers"]["access-control-allow-methods"] == "GET, HEAD, POST, DELETE"
    assert gate.callers == []
    assert (await gate.ask(method="OPTIONS", headers=asked | {"origin": "https://other.example"}))["status"] == 403
    assert (await gate.ask(headers={"origin": EVIL} | BEARER))["status"] == 200
