"""Whose texts G2P takes behind all others: those of requests in bulk, and of no others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import LocalBackend
from tests import tiny

BULK = {"X-Priority": "bulk"}
EARLY = {"optimize_for_latency": True}


class ReadingLog:
    """A G2P service that keeps in which priority it was asked for each text."""

    def __init__(self) -> None:
        self.priorities: dict[str, str | None] = {}

    def answer(self, request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["texts"]
        self.priorities |= dict.fromkeys(texts, request.headers.get("x-priority"))
        return httpx.Response(200, json={"results": [{"phonemes": "həlˈO."} for _ in texts]})


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Services, dict[str, str | None]]]:
    """The server, and the priorities of the texts that it has read."""
    settings = Settings.load({"G2P_SERVICE_URL": "http://g2p.test"}, dotenv=None)
    app = create_app(settings, load=lambda _settings: tiny.load(folder))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        services: Services = app.state.services
        log = ReadingLog()
        services.g2p._transport = httpx.MockTransport(log.answer)
        yield client, services, log.priorities


@pytest.mark.parametrize(
    ("path", "headers", "fields", "priority"),
    [
        ("/tts", {}, {}, None),
        ("/tts", BULK, {}, "bulk"),
        ("/tts", BULK, EARLY, None),  # its first piece goes before others
        ("/tts/captioned", {}, {}, None),
        ("/tts/captioned", BULK, {}, "bulk"),
        ("/tts/stream", {}, {}, None),
        ("/v1/audio/speech", {}, {}, None),
    ],
)
async def test_a_text_is_read_in_the_priority_of_its_request(
    tmp_path: Path, path: str, headers: dict[str, str], fields: dict[str, Any], priority: str | None
) -> None:
    body = {"model": "kokoro", "input": "Hello."} if path.startswith("/v1") else {"text": "Hello.", **fields}
    async with served(tmp_path) as (client, _, priorities):
        answer = await client.post(path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert priorities == {"Hello.": priority}


async def test_clips_that_are_wanted_early_are_read_so_and_the_others_in_bulk(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _, priorities):
        requests = [{"text": "Later."}, {"text": "Early.", **EARLY}]
        assert (await client.post("/tts/batch", json={"requests": requests})).status_code == 200
        assert priorities == {"Later.": "bulk", "Early.": None}
        priorities.clear()
        requests = [{"text": "Much later."}, {"text": "As early.", **EARLY}]
        assert (await client.post("/tts/bulk", json={"requests": requests})).status_code == 200
        assert priorities == {"Much later.": "bulk", "As early.": "bulk"}


async def test_what_follows_in_the_same_task_is_not_in_bulk(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, services, priorities):
        await LocalBackend(services).speak(Speech("af_heart", "A book."))
        assert (await client.post("/tts/bulk", json={"requests": [{"text": "Many."}]})).status_code == 200
        assert (await client.post("/tts", json={"text": "A clip."})).status_code == 200
        assert (await client.post("/text/reading", json={"text": "A question."})).status_code == 200
    assert priorities == {"A book.": "bulk", "Many.": "bulk", "A clip.": None, "A question.": None}
