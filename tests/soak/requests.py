"""Random requests of every kind that the server takes, and of some that it does not."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from zipfile import ZipFile

from websockets.exceptions import ConnectionClosed

from kokoro_server.audio import formats
from kokoro_server.audio.encode import aac_is_installed
from tests.soak.answers import OK, REFUSED, Answer, Client, ErrorEvent, FalseAnswer, ask, on_socket, seconds_of, socket

VOICES = ("af_heart", "af_bella", "af_sky", "am_adam", "bf_emma")
FORMATS = [name for name in formats.FORMATS if name != "aac" or aac_is_installed()]
PAGES = ("/health", "/health/live", "/health/batching", "/health/streaming", "/metrics", "/jobs", "/voices", "/config")
PAGES += ("/v1/models", "/v1/audio/voices", "/", "/openapi.json")
WORDS = "the quick brown fox jumps over a lazy dog while seven wizards watch from that old hill and say nothing".split()
PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˌOvəɹ ðə lˈAzi dˈɔɡ. "

Chance = random.Random
Kind = Callable[[Client, Chance], Awaitable[Answer]]


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


async def tts(client: Client, chance: Chance) -> Answer:
    body, rate = clip(chance), chance.choice((24_000, 24_000, 16_000, 48_000))
    return (await ask(client, "/tts", body | {"sample_rate": rate})).sound(body["format"], rate)


async def ssml(client: Client, chance: Chance) -> Answer:
    document = f'<speak><p>{text(chance)}</p><break time="300ms"/><prosody rate="110%">{text(chance)}</prosody></speak>'
    body = clip(chance) | {"text": document, "phonemes": None, "ssml": True}
    return (await ask(client, "/tts", body)).sound(body["format"])


async def stream(client: Client, chance: Chance) -> Answer:
    body = clip(chance) | ({"text": text(chance, 10), "phonemes": None} if chance.random() < 0.3 else {})
    return (await ask(client, "/tts/stream", body)).sound(body["format"])


@on_socket
async def batch(client: Client, chance: Chance) -> Answer:
    """A clip that fails has an error of its own, as on a socket."""
    clips = [clip(chance) for _ in range(chance.randint(1, 3))]
    return (await ask(client, "/tts/batch", {"requests": clips})).sounds(lambda answer: _in_archive(answer, len(clips)))


def _in_archive(answer: Answer, clips: int) -> float:
    with ZipFile(io.BytesIO(answer.content)) as archive:
        names = [name for name in archive.namelist() if name != "manifest.json"]
        if len(names) != clips:
            raise FalseAnswer(f"{clips} clips became {names}")
        for name in names:
            if name.startswith("error_"):
                raise ErrorEvent(archive.read(name).decode().partition(":")[0])
        return sum(seconds_of(archive.read(name), name.rpartition(".")[2]) for name in names)


@on_socket
async def bulk(client: Client, chance: Chance) -> Answer:
    """A clip that fails has an error of its own, as on a socket."""
    clips = [clip(chance) for _ in range(chance.randint(1, 4))]
    return (await ask(client, "/tts/bulk", {"requests": clips})).sounds(lambda answer: _in_lines(answer, clips))


def _in_lines(answer: Answer, clips: list[dict[str, Any]]) -> float:
    rest, seconds = answer.content, dict[int, float]()
    while rest:
        line, _, rest = rest.partition(b"\n")
        about = json.loads(line)
        if error := about.get("error"):
            raise ErrorEvent(error["code"])
        sound, rest = rest[: about["bytes"]], rest[about["bytes"] :]
        seconds[about["index"]] = seconds_of(sound, clips[about["index"]]["format"])
    if len(seconds) != len(clips):
        raise FalseAnswer(f"{len(seconds)} of {len(clips)} clips")
    return sum(seconds.values())


async def captioned(client: Client, chance: Chance) -> Answer:
    format = chance.choice(("srt", "vtt", *FORMATS))
    answer = await ask(client, "/tts/captioned", clip(chance) | {"format": format})
    if format in ("srt", "vtt"):
        return answer
    return answer.sounds(lambda found: seconds_of(base64.b64decode(found.json()["audio"]), format))


async def captioned_events(client: Client, chance: Chance) -> Answer:
    accept = chance.choice(("application/x-ndjson", "text/event-stream"))
    return await ask(client, "/tts/captioned", clip(chance), headers={"Accept": accept})


async def openai(client: Client, chance: Chance) -> Answer:
    format = chance.choice(FORMATS)
    body = {"model": "tts-1", "input": text(chance), "voice": chance.choice(VOICES), "response_format": format}
    how = chance.choice(("audio", "audio", "sse"))
    answer = await ask(client, "/v1/audio/speech", body | {"stream_format": how})
    return answer.sound(format) if how == "audio" else answer


@on_socket
async def agent(client: Client, chance: Chance) -> Answer:
    """A few turns with a voice agent, who is interrupted now and then."""
    async with socket(client, "/tts/ws") as connection:
        events = aiter(connection)
        heard: list[float] | None = []
        await connection.send(json.dumps({"type": "start", "voice": chance.choice(VOICES), "format": "pcm"}))
        for _ in range(chance.randint(1, 3)):
            barges_in = chance.random() < 0.4
            await connection.send(json.dumps({"type": "append", "text": text(chance)}))
            await connection.send(json.dumps({"type": "cancel" if barges_in else "flush"}))
            sound = await _until(events, "cancelled" if barges_in else "flushed")
            heard = None if barges_in or heard is None else [*heard, seconds_of(sound, "pcm")]
        await connection.send(json.dumps({"type": "close"}))
        with contextlib.suppress(ConnectionClosed, StopAsyncIteration):
            await _until(events, "never")
        return Answer(OK, seconds=sum(heard) if heard else None)


async def _until(events: Any, type: str) -> bytes:
    """Take in what comes up to an event of this type. Returns the audio on the way."""
    sound = b""
    while True:
        message = await anext(events)
        if isinstance(message, bytes):
            sound += message
            continue
        event = json.loads(message)
        if event["type"] == "error":
            raise ErrorEvent(event["code"])
        if event["type"] == type:
            return sound


async def look(client: Client, chance: Chance) -> Answer:
    return await ask(client, chance.choice(PAGES), method="GET")


async def reading(client: Client, chance: Chance) -> Answer:
    answer = await ask(client, "/text/reading", {"text": text(chance) + " It costs $5."})
    if answer.is_right and not answer.json()["phonemes"]:
        raise FalseAnswer("no phonemes")
    return answer


async def own_voice(client: Client, chance: Chance) -> Answer:
    """Name a blend, speak with it, and remove it."""
    name = f"soak-{random.getrandbits(48):x}"
    made = await ask(client, "/voices", {"name": name, "voice": "af_bella(2)+af_sky(1)"})
    if not made.is_right:
        return made
    try:
        return (await ask(client, "/tts", {"text": text(chance), "voice": name, "format": "wav"})).sound("wav")
    finally:
        await ask(client, f"/voices/{name}", method="DELETE")


async def self_test(client: Client, _: Chance) -> Answer:
    return await ask(client, "/test/batching")


async def invalid(client: Client, chance: Chance) -> Answer:
    """4xx is right; 200 is a false answer."""
    path = chance.choice(("/tts", "/tts/stream", "/tts/captioned", "/v1/audio/speech", "/tts/batch", "/nowhere"))
    bad: list[dict[str, Any]] = [
        {"content": b"{"},
        {"content": b"\xff\xfe"},
        {"json": []},
        {"json": {"text": "Hi.", "input": "Hi.", "voice": "nobody"}},
        {"json": {"text": "Hi.", "input": "Hi.", "speed": 99}},
        {"json": {"text": "x" * 200_000, "input": "x" * 200_000}},
        {"json": {"text": "🙂"}},
        {"json": {"requests": []}},
    ]
    answer = await ask(client, path, **chance.choice(bad))
    if answer.is_right:
        raise FalseAnswer(f"{answer.status} for what is wrong")
    return replace(answer, status=OK) if answer.status < 500 and answer.status != REFUSED else answer
