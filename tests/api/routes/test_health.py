"""What works worse than it should, as a user sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.audio import encode
from kokoro_server.config.settings import Settings
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.server.app import create_app
from tests import tiny
from tests.servers import Server


@asynccontextmanager
async def client(folder: Path, *conditions: Condition, **environ: str) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", **environ}, dotenv=None)
    app = create_app(settings, load=lambda _settings: dataclasses.replace(tiny.load(folder), conditions=conditions))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def degraded(client: httpx.AsyncClient) -> dict[str, Any]:
    """What /health lists, by name. The metric must say the same."""
    answer = await client.get("/health")
    assert answer.status_code == 200
    found = {each["name"]: each for each in answer.json()["degraded"]}
    assert answer.json()["status"] == "degraded"  # if only because there is no G2P service here
    lines = (await client.get("/metrics")).text.splitlines()
    shown = {reason.value for reason in Reason if f'tts_degraded{{reason="{reason.value}"}} 1.0' in lines}
    assert shown == set(found)
    return found


async def test_a_fallback_is_shown_while_the_server_serves_and_is_gone_when_it_heals(tmp_path: Path) -> None:
    condition = Condition(Reason.GPU_GRAPHS)
    async with client(tmp_path, condition) as server:
        assert "gpu_graphs" not in await degraded(server)
        condition.set("no graphs; do this")
        found = (await degraded(server))["gpu_graphs"]
        assert found["message"] == "no graphs; do this"
        assert found["since"].endswith("+00:00")
        assert (await server.get("/health/live")).status_code == 200
        ready = await server.get("/health/ready")
        assert ready.status_code == 200 or "G2P" in ready.json()["reason"]  # there is none here
        condition.clear()
        assert "gpu_graphs" not in await degraded(server)


async def test_a_g2p_service_that_is_down_is_shown(tmp_path: Path) -> None:
    async with client(tmp_path) as server:
        found = (await degraded(server))["g2p"]
        assert "G2P_SERVICE_URL" in found["message"]


async def test_voices_are_listed_while_the_g2p_service_is_down(tmp_path: Path) -> None:
    async with client(tmp_path) as server:
        for path in ("/voices", "/v1/audio/voices"):
            assert all(voice["installed"] for voice in (await server.get(path)).json()["voices"])


async def test_a_format_that_cannot_be_written_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "missing_formats", lambda: {"mp3": "pip install -U soundfile"})
    async with client(tmp_path) as server:
        assert (await degraded(server))["formats"]["message"] == "cannot write mp3: pip install -U soundfile"


async def test_a_lexicon_that_breaks_is_shown_until_it_is_mended(tmp_path: Path) -> None:
    lexicon = tmp_path / "lexicon.toml"
    lexicon.write_text('[en]\ntomato = "potato"')
    voices = tmp_path / "voices"
    voices.mkdir()
    async with client(voices, LEXICON_PATH=str(lexicon)) as server:
        transport: Any = server._transport
        reader = transport.app.state.services.synthesizer._reader
        reader._lexicon._check_every = 0

        async def edited(content: str) -> dict[str, Any]:
            lexicon.write_text(content)
            assert (await server.post("/tts", json={"text": "tomato"})).status_code == 503  # there is no G2P here
            return await degraded(server)

        assert "lexicon" not in await degraded(server)
        assert "last good version" in (await edited("[en]\ntomato ="))["lexicon"]["message"]
        assert "lexicon" not in await edited('[en]\ntomato = "tomatoes"')


def test_nothing_is_worse_on_a_server_as_it_should_be(tiny_server: Server) -> None:
    health = httpx.get(f"{tiny_server.url}/health").json()
    assert (health["status"], health["degraded"]) == ("ok", [])


def test_every_format_can_be_written_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encode.missing_formats() == {}
    monkeypatch.setattr("soundfile.available_formats", lambda: {"WAV": "", "OGG": ""})
    assert list(encode.missing_formats()) == ["mp3", "flac"]


async def test_aac_is_refused_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "aac_is_installed", lambda: False)
    async with client(tmp_path) as server:
        refused = await server.post("/tts", json={"text": "Hello.", "format": "aac"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["field"]) == (400, "format_not_installed", "format")
        assert "pip install av" in error["message"]
        assert "mp3" in error["message"]
        openai = {"model": "tts-1", "voice": "alloy", "input": "Hello.", "response_format": "aac"}
        assert (await server.post("/v1/audio/speech", json=openai)).status_code == 400
        assert "formats" not in await degraded(server)
