"""The processes of AAC encoders: none is left behind, and there are never more than allowed."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import IO

import httpx
import numpy as np
import pytest

from kokoro_server.api import async_render
from kokoro_server.api.async_render import Renderers
from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Rendering
from kokoro_server.config.settings import Settings
from kokoro_server.errors import TooBusy
from kokoro_server.server.app import create_app
from tests import tiny

AAC = Rendering(Output("aac"))
PATIENCE = 30  # seconds


class Encoders:
    """Stand-ins for `Renderer`, which count how many are open."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0
        self.started = threading.Event()
        self.lock = threading.Lock()

    def __call__(self, rendering: Rendering, file: IO[bytes] | None = None) -> Encoders:
        self.started.set()
        time.sleep(0.05)
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        return self

    def close(self) -> None:
        with self.lock:
            self.open -= 1


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> Encoders:
    made = Encoders()
    monkeypatch.setattr(async_render, "Renderer", made)
    return made


async def test_an_encoder_that_is_starting_when_its_request_is_cancelled_is_closed(encoders: Encoders) -> None:
    renderers = Renderers(max_processes=1, timeout=PATIENCE)
    opening = asyncio.create_task(renderers.open(AAC))
    await asyncio.to_thread(encoders.started.wait, PATIENCE)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    next_one = await renderers.open(AAC)  # when the first is closed, and no earlier
    assert (encoders.open, encoders.most) == (1, 1)
    await next_one.close()
    assert encoders.open == 0


async def test_more_encoders_than_allowed_wait_in_line(encoders: Encoders) -> None:
    renderers = Renderers(max_processes=3, timeout=PATIENCE)

    async def stream() -> None:
        renderer = await renderers.open(AAC)
        await asyncio.sleep(0.05)
        await renderer.close()

    await asyncio.gather(*(stream() for _ in range(20)))
    assert (encoders.open, encoders.most) == (0, 3)


async def test_one_that_waits_too_long_is_told_when_to_come_back(encoders: Encoders) -> None:
    renderers = Renderers(max_processes=1, timeout=0.05)
    held = await renderers.open(AAC)
    with pytest.raises(TooBusy, match="MAX_AAC_ENCODERS") as refused:
        await renderers.open(AAC)
    assert refused.value.retry_after
    with pytest.raises(TooBusy):
        await renderers.render(np.zeros(2400, np.float32), AAC)
    await held.close()
    await (await renderers.open(AAC)).close()
    assert (encoders.open, encoders.most) == (0, 1)


@pytest.mark.parametrize("path", ["/tts", "/tts/stream", "/tts/captioned"])
async def test_a_request_that_waits_too_long_is_answered_with_429(tmp_path: Path, path: str) -> None:
    settings = Settings.load(
        {"G2P_SERVICE_URL": "http://localhost:9", "MAX_AAC_ENCODERS": "1", "QUEUE_TIMEOUT": "2"}, dotenv=None
    )
    body = {"phonemes": "wˈʌn.", "format": "aac"}
    app = create_app(settings, load=lambda _settings: tiny.load(tmp_path))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        held = await app.state.renderers.open(AAC)
        answer = await client.post(path, json=body)
        await held.close()
        assert (answer.status_code, "retry-after" in answer.headers) == (429, True), answer.text
        assert app.state.places.taken == 0


async def test_one_that_leaves_the_line_takes_no_place(encoders: Encoders) -> None:
    renderers = Renderers(max_processes=1, timeout=PATIENCE)
    held = await renderers.open(AAC)
    waiting = asyncio.create_task(renderers.open(AAC))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait((waiting,))
    await held.close()
    await (await renderers.open(AAC)).close()
    assert (encoders.open, encoders.most) == (0, 1)


async def test_a_clip_that_is_abandoned_keeps_its_place_until_its_process_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running, goes_on = threading.Event(), threading.Event()

    def slow_render(_audio: object, _rendering: Rendering) -> list[bytes]:
        running.set()
        assert goes_on.wait(PATIENCE)
        return [b"file"]

    monkeypatch.setattr(async_render, "render", slow_render)
    renderers = Renderers(max_processes=1, timeout=0.05)
    audio = np.zeros(2400, np.float32)
    abandoned = asyncio.create_task(renderers.render(audio, AAC))
    await asyncio.to_thread(running.wait, PATIENCE)
    abandoned.cancel()
    await asyncio.wait((abandoned,))
    with pytest.raises(TooBusy):
        await renderers.render(audio, AAC)
    goes_on.set()
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                assert await renderers.render(audio, AAC) == [b"file"]
                break
            except TooBusy:
                pass
