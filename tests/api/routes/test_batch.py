"""`POST /tts/batch`: a clip that fails costs only itself, whatever the reason."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.api.routes import batch
from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.synthesizer import Synthesizer
from tests import tiny

SETTINGS = Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None)


async def test_a_fault_of_ours_costs_only_its_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def speak(self: Synthesizer, speech: Speech, *arguments: Any, **options: Any) -> Clip:
        if speech.seed == 1:
            raise RuntimeError("nobody expected this")
        return await really(self, speech, *arguments, **options)

    really = Synthesizer.speak
    monkeypatch.setattr(Synthesizer, "speak", speak)
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    transport = httpx.ASGITransport(app)
    bodies = [{"phonemes": "hˈIlO.", "seed": seed} for seed in (0, 1, 2)]
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.post("/tts/batch", json={"requests": bodies})
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert [clip["status"] for clip in manifest] == ["ok", "error", "ok"]
        assert archive.read("error_002.txt").startswith(b"internal_error: something went wrong")


async def test_a_client_who_leaves_while_the_archive_is_written_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    really = batch.ZipEntry

    class SlowParts(list[bytes]):
        def __iter__(self) -> Any:
            begun.set()
            assert goes_on.wait(60)
            return super().__iter__()

    def slow(name: str, content: batch.ClipFile, manifest: Any) -> batch.ZipEntry:
        return really(name, batch.ClipFile(content.size, SlowParts(content.parts)), manifest)

    monkeypatch.setattr(batch, "ZipEntry", slow)
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        asking = asyncio.create_task(client.post("/tts/batch", json={"requests": [{"phonemes": "hˈIlO."}]}))
        assert await asyncio.to_thread(begun.wait, 60)
        asking.cancel()
        await asyncio.sleep(0.1)
        assert not asking.done()  # the archive stays open as long as a thread writes into it
        goes_on.set()
        await asyncio.wait({asking})
    assert "internal_error" not in caplog.text
