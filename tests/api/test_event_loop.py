"""Large answers do not hold up the event loop, on which every other request depends."""

from __future__ import annotations

import asyncio
import json
import math
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from tests import tiny

SETTINGS = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", "MAX_SILENCE": "3600"}, dotenv=None)
PHONEMES = "wˈʌn. " + "[pause:30s]" * 20
SECONDS = 600
WAV_BYTES = SECONDS * 48_000
BETWEEN_TURNS = 0.002  # seconds


def stall_of_the_whole() -> float:
    """Seconds that it takes on this machine, when it is not disturbed, to make JSON of as much audio at one go."""
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        json.dumps({"audio": b64encode(bytes(WAV_BYTES)).decode()}).encode()
        taken.append(time.perf_counter() - started)
    return min(taken)


class LongestTurn:
    """The longest time for which the event loop did not come back to it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def measure(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(BETWEEN_TURNS)  # a loop that never sleeps would leave the engine's thread no time
            self.seconds = max(self.seconds, time.perf_counter() - before - BETWEEN_TURNS)


async def post(app: Any, path: str, body: dict[str, Any], accept: bytes = b"*/*") -> tuple[list[int], bytes]:
    """The sizes of the parts in which a body is sent, and its first part."""
    unread = [json.dumps(body).encode()]
    sizes: list[int] = []
    first = b""

    async def receive() -> dict[str, Any]:
        if not unread:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal first
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        elif message["body"]:
            first = first or message["body"]
            sizes.append(len(message["body"]))

    headers = [(b"content-type", b"application/json"), (b"accept", accept)]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
    }
    scope |= {"query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    await app({**scope, "asgi": {"version": "3.0"}, "http_version": "1.1"}, receive, send)
    return sizes, first


@pytest.mark.parametrize("path", ["/tts", "/tts/captioned", "/tts/batch", "/tts/bulk"])
async def test_a_long_clip_does_not_hold_up_the_event_loop(tmp_path: Path, path: str) -> None:
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    clip = {"phonemes": PHONEMES}
    body = {"requests": [clip]} if path in ("/tts/batch", "/tts/bulk") else clip
    allowed, longest = stall_of_the_whole() / 5, math.inf
    async with app.router.lifespan_context(app):
        for _ in range(10):  # on a busy machine the loop may be held up by others
            turn = LongestTurn()
            measuring = asyncio.create_task(turn.measure())
            sizes, _ = await post(app, path, body)
            measuring.cancel()
            assert sum(sizes) > WAV_BYTES
            longest = min(longest, turn.seconds)
            if longest < allowed:
                break
    assert longest < allowed


async def test_the_lines_of_a_long_stream_are_bounded(tmp_path: Path) -> None:
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    async with app.router.lifespan_context(app):
        sizes, first = await post(app, "/tts/captioned", {"phonemes": PHONEMES}, b"application/x-ndjson")
    assert sum(sizes) > WAV_BYTES * 4 / 3
    assert max(sizes) < 300_000
    assert b64decode(json.loads(first)["audio"]).startswith(b"RIFF")
