"""Random requests of every kind that the server takes, and of some that it does not."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from kokoro_server.audio import formats
from kokoro_server.audio.encode import aac_is_installed

VOICES = ("af_heart", "af_bella", "af_sky", "am_adam", "bf_emma")
FORMATS = [name for name in formats.FORMATS if name != "aac" or aac_is_installed()]
WORDS = "the quick brown fox jumps over a lazy dog while seven wizards watch from that old hill and say nothing".split()
PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˌOvəɹ ðə lˈAzi dˈɔɡ. "

Chance = random.Random
Client = httpx.AsyncClient
Kind = Callable[[Client, Chance], Awaitable[int]]  # returns the status of its answer

OK, REFUSED = 200, 429


def text(chance: Chance, sentences: int | None = None) -> str:
    count = sentences or chance.choice((1, 1, 1, 1, 2, 4))
    return " ".join(" ".join(chance.choices(WORDS, k=chance.randint(1, 8))).capitalize() + "." for _ in range(count))


def clip(chance: Chance) -> dict[str, Any]:
    said = {"phonemes": PHONEMES * chance.randint(1, 2)} if chance.random() < 0.2 else {"text": text(chance)}
    return said | {
        "voice": chance.choice(VOICES),
        "speed": chance.choice((0.8, 1.0, 1.0, 1.3)),
        "format": chance.choice(FORMATS),
    }


async def tts(client: Client, chance: Chance) -> int:
    rate = chance.choice(({}, {}, {"sample_rate": 16_000}, {"sample_rate": 48_000}))
    return (await client.post("/tts", json=clip(chance) | rate)).status_code


async def stream(client: Client, chance: Chance) -> int:
    body = clip(chance) | ({"text": text(chance, 10), "phonemes": None} if chance.random() < 0.3 else {})
    return await _read("/tts/stream", client, body)


async def batch(client: Client, chance: Chance) -> int:
    clips = [clip(chance) for _ in range(chance.randint(1, 3))]
    answer = await client.post("/tts/batch", json={"requests": clips})
    return 500 if answer.status_code == OK and answer.headers["x-failed-requests"] != "0" else answer.status_code


async def captioned(client: Client, chance: Chance) -> int:
    format = chance.choice(("srt", "vtt", *FORMATS))
    return (await client.post("/tts/captioned", json=clip(chance) | {"format": format})).status_code


async def captioned_events(client: Client, chance: Chance) -> int:
    accept = chance.choice(("application/x-ndjson", "text/event-stream"))
    return await _read("/tts/captioned", client, clip(chance), {"Accept": accept})


async def openai(client: Client, chance: Chance) -> int:
    format = chance.choice(FORMATS)
    body = {"model": "tts-1", "input": text(chance), "voice": chance.choice(VOICES), "response_format": format}
    return await _read("/v1/audio/speech", client, body | {"stream_format": chance.choice(("audio", "audio", "sse"))})


async def _read(path: str, client: Client, body: dict[str, Any], headers: dict[str, str] | None = None) -> int:
    async with client.stream("POST", path, json=body, headers=headers) as answer:
        async for _ in answer.aiter_raw():
            pass
        return answer.status_code


async def agent(client: Client, chance: Chance) -> int:
    """A few turns with a voice agent, who is interrupted now and then."""
    url = f"{str(client.base_url).replace('http', 'ws', 1).rstrip('/')}/tts/ws"
    async with connect(url, max_size=2**24, open_timeout=60, ping_timeout=None) as socket:
        events = aiter(socket)
        format = chance.choice(FORMATS)
        await socket.send(json.dumps({"type": "start", "voice": chance.choice(VOICES), "format": format}))
        for _ in range(chance.randint(1, 3)):
            barges_in = chance.random() < 0.4
            await socket.send(json.dumps({"type": "append", "text": text(chance)}))
            await socket.send(json.dumps({"type": "cancel" if barges_in else "flush"}))
            if await _until(events, "cancelled" if barges_in else "flushed"):
                return 500
        await socket.send(json.dumps({"type": "close"}))
        try:
            await _until(events, "never")
        except (ConnectionClosed, StopAsyncIteration):
            return OK
    return OK


async def _until(events: Any, type: str) -> bool:
    """Take in what comes up to an event of this type. Returns whether there was an error on the way."""
    failed = False
    while True:
        message = await anext(events)
        if isinstance(message, str):
            event = json.loads(message)
            failed = failed or (event["type"] == "error" and event["code"] != "too_busy")
            if event["type"] == type:
                return failed


async def look(client: Client, chance: Chance) -> int:
    paths = ("/health", "/health/live", "/health/ready", "/health/batching", "/health/streaming", "/metrics")
    path = chance.choice((*paths, "/voices", "/config", "/v1/models", "/v1/audio/voices", "/", "/openapi.json"))
    return (await client.get(path)).status_code


async def self_test(client: Client, _: Chance) -> int:
    return (await client.post("/test/batching")).status_code


async def invalid(client: Client, chance: Chance) -> int:
    """4xx is right; anything else is reported as it is, and 200 as a 500."""
    path = chance.choice(("/tts", "/tts/stream", "/tts/captioned", "/v1/audio/speech", "/tts/batch", "/nowhere"))
    bad: list[dict[str, Any]] = [
        {"content": b"{"},
        {"content": b"\xff\xfe"},
        {"json": []},
        {"json": {"text": "Hi.", "input": "Hi.", "voice": "nobody"}},
        {"json": {"text": "Hi.", "input": "Hi.", "speed": 99}},
        {"json": {"text": "x" * 200_000, "input": "x" * 200_000}},
        {"json": {"text": "🙂", "input": "🙂"}},
        {"json": {"requests": []}},
    ]
    answer = await client.post(path, **chance.choice(bad))
    return OK if 400 <= answer.status_code < 500 else 500


KINDS: dict[Kind, int] = {  # and how often each is chosen
    tts: 8,
    stream: 6,
    openai: 4,
    look: 4,
    captioned: 3,
    captioned_events: 3,
    agent: 3,
    invalid: 3,
    batch: 2,
    self_test: 1,
}
