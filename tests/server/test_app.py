from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import SetupError
from kokoro_server.observability.metrics import Metrics
from kokoro_server.server import app as module
from tests import tiny

NO_G2P = Settings.load({"G2P_SERVICE_URL": "http://127.0.0.1:9"}, dotenv=None)


class FailingG2P:
    async def start(self) -> None:
        raise SetupError("no G2P")

    async def stop(self) -> None: ...


def fail_to_load(_settings: Settings) -> LoadedModel:
    time.sleep(0.1)  # meanwhile the G2P service fails
    raise SetupError("no model")


async def test_if_model_and_g2p_fail_the_log_has_the_error_that_is_not_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "g2p_child", lambda _settings: FailingG2P())
    with pytest.raises(SetupError, match="no model"):
        async with module.running_services(Settings.load({}, dotenv=None), fail_to_load, Metrics(), print):
            pass
    assert "the G2P service did not start, either error=no G2P" in caplog.text


async def test_watchers_have_ended_when_the_application_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = False

    async def watch(_observe: object) -> None:
        nonlocal ended
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            ended = True

    monkeypatch.setattr(module, "watch_lag", watch)
    app = module.create_app(NO_G2P, load=lambda _settings: tiny.load(tmp_path))
    async with app.router.lifespan_context(app):
        await asyncio.sleep(0)
    assert ended
