"""Who comes in, whom a request is counted for, and what the others are told."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from kokoro_server.api.errors import on_unexpected
from kokoro_server.api.middleware.access_log import AccessLog
from kokoro_server.api.middleware.guard.middleware import Guard, configured_keys
from kokoro_server.callers import limits as limits
from kokoro_server.callers.current import caller
from kokoro_server.callers.limits import CallerCounts, LocalLimits, RateLimit
from kokoro_server.config.settings import Settings
from kokoro_server.observability.metrics import Metrics

ALICE, BOB = b"alices-secret", b"bobs-secret"
KEYS = {"API_KEYS": "alice=alices-secret,bob=bobs-secret"}
BEARER = {"authorization": "Bearer alices-secret"}

Answer = dict[str, Any]


class Gate:
    """The guard and the access log around an endpoint that says who has come; a POST waits while `held`."""

    def __init__(self, **environ: str) -> None:
        settings = Settings.load(environ, None)
        self.metrics = Metrics()
        self.scopes: list[Scope] = []
        self.callers: list[str] = []
        self.held = asyncio.Event()
        self.held.set()
        limits = LocalLimits(CallerCounts(settings.rate_limit, settings.max_concurrent_requests))
        guard = Guard(self._endpoint, settings, configured_keys(settings), self.metrics, limits)
        self._app = AccessLog(guard, self.metrics, on_unexpected)

    async def _endpoint(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.callers.append(caller.get())
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await self.held.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-voice-used", b"af_heart")]})
        await send({"type": "http.response.body", "body": b"spoken"})

    async def ask(
        self,
        path: str = "/tts",
        method: str = "POST",
        headers: dict[str, str] | None = None,
        *,
        kind: str = "http",
        query: str = "",
        subprotocols: tuple[str, ...] = (),
        client: str = "192.0.2.7",
        server: str = "127.0.0.1",
    ) -> Answer:
        raw = {"host": "127.0.0.1:8880"} | (headers or {})
        scope: Scope = {
            "type": kind,
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in raw.items()],
            "client": (client, 40_000),
            "server": (server, 8880),
            "subprotocols": list(subprotocols),
            "extensions": {"websocket.http.response": {}},
        }
        if kind == "websocket":
            del scope["method"]
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("a body was read")

        await self._app(scope, receive, send)
        start = sent[0]
        return {
            "status": start.get("status", 101),
            "headers": {name.decode(): value.decode() for name, value in start.get("headers", ())},
            "body": b"".join(message.get("body", b"") for message in sent).decode(),
            "subprotocol": start.get("subprotocol"),
        }

    async def connect(self, **options: Any) -> Answer:
        return await self.ask("/tts/ws", kind="websocket", **options)

    def metric(self, line: str) -> bool:
        return line in self.metrics.render().decode().splitlines()


@pytest.mark.parametrize(
    "headers",
    [
        BEARER,
        {"authorization": "bearer  alices-secret"},
        {"x-api-key": "alices-secret"},
        {"x-api-key": "alices-secret", "authorization": "Basic cHJveHk6cHJveHk="},
        {"x-api-key": "alices-secret", "authorization": "Bearer dummy"},
    ],
)
async def test_a_key_opens(headers: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(**KEYS)
    with caplog.at_level(logging.INFO):
        answer = await gate.ask(headers=headers)
    assert answer["status"] == 200
    assert gate.callers == ["alice"]
    assert caller.get() == "-"
    assert "path=/tts status=200" in caplog.text
    assert "caller=alice" in caplog.text
    assert gate.metric('tts_key_requests_total{key="alice"} 1.0')
    assert gate.metric('tts_key_requests_total{key="bob"} 0.0')


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer wrong-secret"}, {"x-api-key": "alices-secre"}, {"authorization": "Basic YWxpY2U="}],
)
async def test_without_the_right_key_nothing_is_read(headers: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(**KEYS)
    with caplog.at_level(logging.DEBUG):
        answer = await gate.ask(headers=headers)
    assert (answer["status"], answer["headers"]["www-authenticate"]) == (401, 'Bearer realm="Kokoro Server"')
    assert '"code":"invalid_api_key"' in answer["body"]
    assert answer["headers"]["x-request-id"]
    assert gate.callers == []
    assert "path=/tts status=401" in caplog.text
    assert "caller=-" in caplog.text
    assert "secre" not in caplog.text + answer["body"]
    assert gate.metric('tts_requests_refused_total{reason="invalid_api_key"} 1.0')


async def test_below_v1_the_refusal_is_openais() -> None:
    answer = await Gate(**KEYS).ask("/v1/audio/speech")
    assert '"type":"invalid_request_error"' in answer["body"]
    assert '"code":"invalid_api_key"' in answer["body"]


@pytest.mark.parametrize(
    ("path", "environ", "status"),
    [
        ("/health/live", {}, 200),
        ("/health/ready", {}, 200),
        ("/health", {}, 401),
        ("/health/batching", {}, 401),
        ("/health/live/", {}, 401),
        ("/config", {}, 401),
        ("/nowhere", {}, 401),
        ("/", {}, 200),
        ("/web/app.js", {}, 200),
        ("/docs", {}, 200),
        ("/openapi.json", {}, 200),
        ("/", {"OPEN_PAGE": "false"}, 401),
        ("/web/app.js", {"OPEN_PAGE": "false"}, 401),
        ("/docs", {"OPEN_PAGE": "false"}, 401),
        ("/metrics", {}, 401),
        ("/metrics", {"OPEN_METRICS": "true"}, 200),
    ],
)
async def test_what_is_open(path: str, environ: dict[str, str], status: int) -> None:
    gate = Gate(**KEYS, **environ)
    assert (await gate.ask(path, "GET"))["status"] == status
    assert (await gate.ask(path, "GET", BEARER))["status"] == 200


def subprotocol(key: bytes) -> str:
    return "key." + base64.urlsafe_b64encode(key).decode().rstrip("=")


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"headers": BEARER}, None),
        ({"headers": {"x-api-key": "alices-secret"}}, None),
        ({"query": "a=1&api_key=alices-secret"}, None),
        ({"subprotocols": ("kokoro", subprotocol(ALICE))}, "kokoro"),
        ({"subprotocols": (subprotocol(ALICE),)}, None),
        ({"subprotocols": ("token", "alices-secret")}, "token"),
        ({"subprotocols": ("Bearer", "alices-secret")}, "Bearer"),
    ],
)
async def test_a_websocket_has_more_ways_to_send_a_key(options: dict[str, Any], chosen: str | None) -> None:
    gate = Gate(**KEYS)
    answer = await gate.connect(**options)
    assert (answer["status"], answer["subprotocol"]) == (101, chosen)
    assert gate.callers == ["alice"]
    [scope] = gate.scopes
    assert "alice" not in str(scope["query_string"]) + str(scope["path"])
    assert not any(name.startswith(("key.", "alices")) for name in scope["subprotocols"])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"query": "api_key="},
        {"query": "api_key=wrong-secret"},
        {"subprotocols": ("kokoro",)},
        {"subprotocols": ("kokoro", "key.")},
        {"subprotocols": ("token",)},
        {"subprotocols": ("token", "wrong-secret")},
        {"subprotocols": ("kokoro", "alices-secret")},
        {"subprotocols": ("kokoro", "key.%%%")},
        {"subprotocols": ("kokoro", "key.alices-secret")},
    ],
)
async def test_a_websocket_without_the_right_key_is_refused(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(**KEYS)
    with caplog.at_level(logging.INFO):
        answer = await gate.connect(**options)
    assert answer["status"] == 401
    assert '"code":"invalid_api_key"' in answer["body"]
    assert answer["headers"]["x-request-id"]
    assert "method=WEBSOCKET path=/tts/ws status=401" in caplog.text
    assert "secret" not in caplog.text
    assert gate.callers == []


async def test_the_query_of_other_requests_is_no_place_for_a_key() -> None:
    assert (await Gate(**KEYS).ask(query="api_key=alices-secret"))["status"] == 401


async def test_without_keys_any_key_will_do(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    with caplog.at_level(logging.INFO):
        assert (await gate.ask(headers={"authorization": "Bearer none"}))["status"] == 200
    assert (await gate.connect(subprotocols=("kokoro", subprotocol(b"none"))))["subprotocol"] == "kokoro"
    assert "caller" not in caplog.text


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("not an address", "unknown"),
    ],
)
async def test_without_keys_requests_are_counted_by_address(client: str, expected: str) -> None:
    gate = Gate()
    await gate.ask(client=client)
    assert gate.callers == [f"@{expected}"]


async def test_no_address_passes_for_a_key() -> None:
    """A proxy may hand on any word in place of an address."""
    gate = Gate(API_KEYS="bob=secret-of-bob", RATE_LIMIT="1")
    await gate.ask("/", client="bob")
    assert gate.callers != ["bob"]
    assert (await gate.ask(headers={"x-api-key": "secret-of-bob"}))["status"] == 200
    assert gate.metrics.key_requests.labels("bob")._value.get() == 1


async def test_each_caller_has_requests_of_its_own_for_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(RATE_LIMIT="2")
    assert [(await gate.ask())["status"] for _ in range(2)] == [200, 200]
    refused = await gate.ask("/v1/audio/speech")
    assert refused["status"] == 429
    assert 1 <= int(refused["headers"]["retry-after"]) <= 30
    assert "RATE_LIMIT" in refused["body"]
    assert '"type":"rate_limit_error"' in refused["body"]
    assert (await gate.connect())["status"] == 429
    assert (await gate.ask("/voices", "GET"))["status"] == 200
    assert (await gate.ask(client="192.0.2.8"))["status"] == 200
    assert gate.metric('tts_requests_refused_total{reason="rate_limited"} 2.0')


async def test_with_keys_the_limit_is_the_keys_wherever_it_comes_from() -> None:
    gate = Gate(**KEYS, RATE_LIMIT="1")
    assert (await gate.ask(headers=BEARER))["status"] == 200
    assert (await gate.ask(headers=BEARER, client="192.0.2.8"))["status"] == 429
    assert (await gate.ask(headers={"x-api-key": "bobs-secret"}))["status"] == 200


async def test_guesses_at_a_key_are_limited_too() -> None:
    gate = Gate(**KEYS, RATE_LIMIT="2")
    guess = {"x-api-key": "a-guess"}
    assert [(await gate.ask("/voices", "GET", guess))["status"] for _ in range(3)] == [401, 401, 429]
    assert (await gate.ask(headers=BEARER))["status"] == 200


async def test_requests_at_once() -> None:
    gate = Gate(MAX_CONCURRENT_REQUESTS="2")
    gate.held.clear()
    running = [asyncio.create_task(gate.ask()) for _ in range(2)]
    await asyncio.sleep(0)
    assert len(gate.callers) == 2
    refused = await gate.ask()
    assert (refused["status"], refused["headers"]["retry-after"]) == (429, "1")
    assert "MAX_CONCURRENT_REQUESTS" in refused["body"]
    assert (await gate.connect())["status"] == 429
    others = asyncio.create_task(gate.ask(client="192.0.2.8"))
    running[0].cancel()
    await asyncio.wait(running[:1])
    replacement = asyncio.create_task(gate.ask())
    gate.held.set()
    for task in (running[1], others, replacement):
        assert (await task)["status"] == 200
    assert gate.metric('tts_requests_refused_total{reason="too_many_at_once"} 2.0')


def limiter(per_minute: int) -> tuple[RateLimit, Callable[[float], None]]:
    now = [1000.0]

    def forward(seconds: float) -> None:
        now[0] += seconds

    return RateLimit(per_minute, lambda: now[0]), forward


@pytest.mark.parametrize("per_minute", [1, 7, 60, 999])
def test_a_minute_holds_just_so_many_and_they_come_back_evenly(per_minute: int) -> None:
    limit, forward = limiter(per_minute)
    assert [limit.take("a") for _ in range(per_minute)] == [0.0] * per_minute
    wait = limit.take("a")
    assert wait == pytest.approx(60 / per_minute)
    forward(wait)
    assert limit.take("a") == 0.0
    assert limit.take("a") > 0
    forward(3600)
    assert [limit.take("a") for _ in range(per_minute + 1)].count(0.0) == per_minute


def test_only_so_many_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CALLERS", 100)
    limit, _ = limiter(1)
    assert limit.take("busy") == 0.0
    for number in range(1000):
        assert limit.take(str(number)) == 0.0
        assert limit.take("busy") > 0  # whoever keeps asking is not forgotten
    assert len(limit._full_at) == 100


async def test_urls_that_speak_count_and_need_a_key() -> None:
    gate = Gate(RATE_LIMIT="1")
    answers = [(await gate.ask(method="GET", query="text=Hi"))["status"] for _ in range(2)]
    assert answers == [200, 429]
    assert [(await gate.ask("/voices", "GET"))["status"] for _ in range(3)] == [200, 200, 200]
    gate = Gate(**KEYS)
    assert (await gate.ask(method="GET", query="text=Hi"))["status"] == 401
    assert (await gate.ask(method="GET", query="text=Hi&api_key=alices-secret"))["status"] == 401
    assert (await gate.ask(method="GET", query="text=Hi", headers=BEARER))["status"] == 200
