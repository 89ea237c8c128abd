"""How a request's end is told: to its client, in the log, in the metrics."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

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

    return app


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
