"""How many rows of a batch a text is: a clip as few as it may, what is heard meanwhile begins with a short one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import Result, Row
from kokoro_server.server.app import create_app
from tests import backends, tiny

SENTENCE = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, wˌIl sˈɛvən wˈɪzəɹdz wˈɑʧ. "  # 78 phonemes


class CountingEngine:
    device = "cpu"

    def __init__(self) -> None:
        self._engine = backends.tiny("torch")
        self.limits = self._engine.limits
        self.lengths: list[int] = []  # of the rows, in phonemes

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        self.lengths += (len(row.tokens) for row in rows)
        return self._engine.synthesize(rows)


@pytest.mark.parametrize(
    ("path", "body", "short_start"),
    [
        ("/tts", {}, False),
        ("/tts", {"optimize_for_latency": True}, True),
        ("/tts/captioned", {}, False),
        ("/tts/captioned", {"format": "srt"}, False),
        ("/tts/captioned", {"optimize_for_latency": True}, True),
        ("/tts/batch", {}, False),
        ("/tts/batch", {"optimize_for_latency": True}, True),
        ("/tts/bulk", {"optimize_for_latency": True}, False),
        ("/tts/stream", {}, True),
    ],
)
async def test_only_what_is_wanted_early_begins_with_a_short_row(
    tmp_path: Path, path: str, body: dict[str, Any], short_start: bool
) -> None:
    engine = CountingEngine()
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: LoadedModel((engine,), ModelFacts(tiny.load(tmp_path).facts.voices, "fp32", "path")),
    )
    speech = {"phonemes": SENTENCE * 2, **body}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        answer = await client.post(path, json={"requests": [speech]} if path in ("/tts/batch", "/tts/bulk") else speech)
    assert answer.status_code == 200, answer.text
    if short_start:
        assert min(engine.lengths) <= 50
        assert len(engine.lengths) > 1
    else:
        assert engine.lengths == [2 * len(SENTENCE) - 1]
