from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.services import Services
from tests import tiny

SETTINGS = Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None)


@pytest.mark.parametrize("path", ["/tts", "/tts/stream", "/tts/batch"])
async def test_a_request_that_is_cancelled_at_shutdown_gets_a_503(path: str, tmp_path: Path) -> None:
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    clip: dict[str, Any] = {"phonemes": "a"}
    body = json.dumps({"requests": [clip]} if path == "/tts/batch" else clip).encode()
    received = asyncio.Queue[dict[str, Any]]()
    received.put_nowait({"type": "http.request", "body": body})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    async with app.router.lifespan_context(app):
        services: Services = app.state.services
        services.queue.hold()
        request = asyncio.ensure_future(app(scope, received.get, send))
        while not services.queue.snapshot()["queue_status"]["current_size"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        request.cancel()  # as uvicorn does it
        await request
    start, end = sent
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"]) == (503, b"5")
    assert b"x-request-id" in headers
    error = json.loads(end["body"])["error"]
    assert (error["code"], error["message"]) == ("engine_unavailable", "the server is shutting down; try again")
