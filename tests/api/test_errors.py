"""What an answer must not tell: where files are, what is at which address, what the code looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from kokoro_server.api import captioned, streaming
from kokoro_server.api.compat.openai import routes as openai
from kokoro_server.api.middleware.stream_slots import StreamStats
from kokoro_server.batching.faults import row_error
from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import Row
from kokoro_server.errors import AssetError, KokoroError, UnknownVoice
from kokoro_server.runtime.json import JsonObject
from kokoro_server.server.app import create_app
from tests import tiny

G2P = "http://user:hunter2@localhost:9"
SETTINGS = Settings.load({"G2P_SERVICE_URL": G2P, "LOG_LEVEL": "debug"}, dotenv=None)


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))


async def test_neither_paths_nor_addresses(app: FastAPI, tmp_path: Path) -> None:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    @app.get("/broken")
    async def broken() -> None:
        raise OSError(2, "No such file", str(tmp_path))

    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answers = [
            await client.get("/broken"),
            await client.get("/nowhere"),
            await client.get("/web/..%2Fapp.py"),
            await client.post("/tts", json={"text": "Hello.", "voice": "../../etc/passwd"}),
            await client.post("/tts", json={"text": "Hello."}),
            await client.post("/tts/captioned", json={"text": "Hello."}),
            await client.post("/tts", content=b"{"),
            await client.get("/config"),
        ]
        (tmp_path / "af_sky.bin").write_bytes(b"damaged")  # a voice is read when it is first asked for
        answers.append(await client.post("/tts", json={"phonemes": "hˈaɪ.", "voice": "af_sky"}))
    assert [answer.status_code for answer in answers] == [500, 404, 404, 400, 503, 503, 422, 200, 500]
    for answer in answers:
        for told in (str(tmp_path), "site-packages", "Traceback", "hunter2", "localhost:9", ".py"):
            assert told not in answer.text or answer.request.url.path == "/config", answer.text
    assert "hunter2" not in answers[7].text
    assert answers[-1].json()["error"]["code"] == "internal_error"


def test_an_engines_own_words_are_for_the_log() -> None:
    error = row_error(RuntimeError("File /opt/model.py, line 3"), Row((1, 2), None))  # type: ignore[arg-type]
    assert "RuntimeError" in error.message
    assert "/opt" not in error.message


@pytest.mark.parametrize("event", [captioned._error_event, openai._error_event])
async def test_the_last_event_of_a_stream_that_fails(event: Callable[[KokoroError], JsonObject]) -> None:
    async def last_line(error: Exception) -> str:
        async def failing() -> streaming.Events:
            raise error
            yield {}

        lines = streaming._lines(StreamStats(), failing(), streaming.FRAMING[streaming.NDJSON], event)
        line = await anext(lines)
        with pytest.raises(streaming.StreamAborted):
            await anext(lines)
        return line

    for error in (OSError("/opt/file"), AssetError("/opt/file: damaged")):
        assert "/opt" not in await last_line(error)
    assert "no such voice" in await last_line(UnknownVoice("no such voice"))
