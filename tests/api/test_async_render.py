from __future__ import annotations

import asyncio
import threading
import time

import pytest

from kokoro_server.api import async_render
from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Rendering


async def test_an_encoder_that_is_starting_when_its_request_is_cancelled_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, closed = threading.Event(), threading.Event()

    class SlowRenderer:
        def __init__(self, _rendering: Rendering) -> None:
            started.set()
            time.sleep(0.1)

        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(async_render, "Renderer", SlowRenderer)
    opening = asyncio.create_task(async_render.open_renderer(Rendering(Output("aac"))))
    await asyncio.to_thread(started.wait, 10)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await asyncio.to_thread(closed.wait, 10)
