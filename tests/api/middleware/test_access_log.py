"""How a request's end is told: to its client, in the log, in the metrics."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, WebSocket
from starlette.types import Message

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.services import Services
from tests import tiny

SETTINGS = Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None)


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("nobody expected this")

    @app.websocket("/talk")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        match await socket.receive_text():
            case "raise":
                raise RuntimeError("nobody expected this")
            case "fail":
                await socket.close(1011)
            case _:
                await socket.close()

    return app


@pytest.mark.parametrize(("said", "outcome"), [("bye", "ok"), ("fail", "failed"), ("raise", "broken_off")])
async def test_a_websocket_is_counted_once_by_its_end(app: FastAPI, said: str, outcome: str) -> None:
    received = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": said}])

    async def receive() -> Message:
        return next(received)

    async def send(_message: Message) -> None:
        pass

    scope = {"type": "websocket", "path": "/talk", "headers": [], "query_string": b"", "subprotocols": []}
    async with app.router.lifespan_context(app):
        with contextlib.suppress(RuntimeError):
            await app(scope, receive, send)
        services: Services = app.state.services
        counted = services.metrics.render().decode()
    assert [line for line in counted.splitlines() if line.startswith("tts_requests_total")] == [
        f'tts_requests_total{{endpoint="/talk",outcome="{outcome}"}} 1.0'
    ]
    assert "tts_request_seconds_count 0.0" in counted  # nobody waits for the end of a conversation


async def test_an_unexpected_error_is_a_500_with_an_id_and_counted_as_failed(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        with caplog.at_level(logging.INFO):
            answer = await client.get("/broken", headers={"X-Request-ID": "mine"})
        services: Services = app.state.services
        counted = services.metrics.render().decode()
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert answer.headers["x-request-id"] == "mine"
    assert "path=/broken status=500" in caplog.text
    assert 'endpoint="/broken",outcome="failed"' in counted
    assert "client_gone" not in counted
