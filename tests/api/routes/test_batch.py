"""`POST /tts/batch`: a clip that fails costs only itself, whatever the reason."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.synthesizer import Clip, Synthesizer
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
