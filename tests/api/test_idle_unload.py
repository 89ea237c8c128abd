"""A model that is unloaded while nobody speaks, as a user sees it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.server.app import create_app
from tests import backends, tiny

PATIENCE = 60.0  # seconds
SPEECH = {"phonemes": "wˈʌn, tˈu, θɹˈi.", "format": "pcm"}


@asynccontextmanager
async def client(model: LoadedModel, after: str = "0.2") -> AsyncIterator[httpx.AsyncClient]:
    environ = {"G2P_SERVICE_URL": "http://localhost:9", "KOKORO_IDLE_UNLOAD_S": after}
    app = create_app(Settings.load(environ, dotenv=None), load=lambda _settings: model)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def health(client: httpx.AsyncClient) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.get("/health")).json()
    return answer


async def is_ready(server: httpx.AsyncClient) -> bool:
    """Whether it could speak. There is no G2P service here, which it says after two seconds."""
    ready = await server.get("/health/ready")
    return ready.status_code == 200 or "G2P" in ready.json()["reason"]


async def unloaded(client: httpx.AsyncClient) -> dict[str, Any]:
    """What /health says as soon as it is."""
    async with asyncio.timeout(PATIENCE):
        while (found := await health(client))["model"]["state"] != "unloaded":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


async def test_the_next_request_waits_for_it_and_sounds_the_same(tmp_path: Path) -> None:
    model = tiny.load(tmp_path, backend=backends.TESTED[0])
    async with client(model) as server:
        before = await server.post("/tts", json=SPEECH)
        found = await unloaded(server)
        assert model.engines == ()
        assert found["model"]["unload_after_s"] == 0.2
        assert found["model"]["unloads"] == found["model"]["loads"] + 1
        assert {each["name"] for each in found["degraded"]} == {"g2p"}  # there is no such service here
        assert await is_ready(server)
        assert (await server.get("/voices")).status_code == 200
        assert "tts_model_loaded 0.0" in (await server.get("/metrics")).text.splitlines()
        assert (await health(server))["model"] == found["model"]  # none of these has loaded it
        after = await asyncio.gather(*(server.post("/tts", json=SPEECH) for _ in range(4)))
        assert [each.status_code for each in after] == [200] * 4
        assert (await server.post("/tts", json=SPEECH)).content == before.content
        state = (await server.get("/health/batching")).json()["model"]
        assert state["loads"] > found["model"]["loads"]
        assert state["last_load_s"] > 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """One that has the same engine again after each load, which is quick."""
    model = tiny.load(tmp_path_factory.mktemp("voices"))
    engines = model.engines
    return dataclasses.replace(model, make_engines=lambda: engines)


async def test_a_load_that_fails_is_told_and_tried_again(model: LoadedModel) -> None:
    broken: list[Exception] = []
    engines = model.engines

    def make_or_fail() -> Any:
        if broken:
            raise broken[0]
        return engines

    async with client(dataclasses.replace(model, make_engines=make_or_fail)) as server:
        await unloaded(server)
        broken.append(FileNotFoundError("/secret/weights.safetensors"))
        for path in ("/tts", "/tts/stream"):
            refused = await server.post(path, json=SPEECH)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
            assert refused.json()["error"]["code"] == "engine_unavailable"
            assert "secret" not in refused.text
        found = await health(server)
        assert found["status"] == "degraded"
        [worse] = [each for each in found["degraded"] if each["name"] == "model"]
        assert "FileNotFoundError" in worse["message"]
        assert found["model"]["failed_loads"] >= 2
        assert await is_ready(server)
        assert 'tts_degraded{reason="model"} 1.0' in (await server.get("/metrics")).text.splitlines()
        broken.clear()
        assert (await server.post("/tts", json=SPEECH)).status_code == 200
        assert "model" not in {each["name"] for each in (await health(server))["degraded"]}


async def test_a_server_ends_while_it_is_unloaded(model: LoadedModel) -> None:
    async with asyncio.timeout(PATIENCE), client(dataclasses.replace(model)) as server:
        await unloaded(server)


async def test_without_the_setting_it_stays(model: LoadedModel) -> None:
    async with client(model, after="0") as server:
        assert (await health(server))["model"] == {"state": "loaded"}
