"""When a listener hears the first sound: in the headers, in the metrics and in the times of words."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from kokoro_server.audio.audible import first_audible
from kokoro_server.audio.join import LEAD
from tests.audio_files import decode
from tests.servers import Server

QUIET_START = '<speak><break time="300ms"/>Hello there, my friend.</speak>'
TWO_SENTENCES = "Hello there, my friend. It was late."
RATE = 24_000
PATIENCE = 120  # seconds


def post(server: Server, path: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    answer = httpx.post(server.url + path, json=body, headers=headers, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer


def steps(answer: httpx.Response) -> dict[str, float]:
    return {
        name: float(milliseconds)
        for name, milliseconds in (step.split(";dur=") for step in answer.headers["server-timing"].split(", "))
    }


def counted(server: Server, kind: str) -> tuple[float, float]:
    """How many first sounds have been counted, and after how many seconds all together."""
    lines = httpx.get(f"{server.url}/metrics", timeout=60).text.splitlines()
    label = f'{{kind="{kind}"}} '
    found = [
        float(line.split(label)[1])
        for name in ("count", "sum")
        for line in lines
        if line.startswith(f"tts_time_to_first_audible_seconds_{name}{label}")
    ]
    return (found[0], found[1]) if found else (0.0, 0.0)


@pytest.mark.parametrize(("path", "kind"), [("/tts", "clip"), ("/tts/stream", "stream")])
def test_an_answer_says_when_its_first_sound_is_heard(tiny_server: Server, path: str, kind: str) -> None:
    before = counted(tiny_server, kind)
    answer = post(tiny_server, path, text=QUIET_START, ssml=True, format="pcm")
    place = first_audible(np.frombuffer(answer.content, "<i2"))
    assert place is not None
    assert place >= 0.3 * RATE
    found = steps(answer)
    assert found["audible"] - found["total"] == pytest.approx(1000 * place / RATE, abs=0.3)
    count, seconds = counted(tiny_server, kind)
    assert count == before[0] + 1
    assert seconds - before[1] >= found["audible"] / 1000 - 0.001


def test_events_and_captions_say_it_too(tiny_server: Server) -> None:
    for headers in ({}, {"Accept": "application/x-ndjson"}):
        answer = post(tiny_server, "/tts/captioned", headers, text=QUIET_START, ssml=True, format="pcm")
        assert steps(answer)["audible"] > 300


CARTESIA = {
    "model_id": "sonic-3",
    "context_id": "one",
    "voice": {"mode": "id", "id": "af_heart"},
    "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE},
    "language": "en",
    "continue": False,
}
SESSIONS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "websocket": ("/tts/ws", [{"type": "append", "text": TWO_SENTENCES}, {"type": "close"}]),
    "deepgram": (
        f"/v1/speak?encoding=linear16&sample_rate={RATE}",
        [{"type": "Speak", "text": TWO_SENTENCES}, {"type": "Close"}],
    ),
    "elevenlabs": (
        f"/v1/text-to-speech/af_heart/stream-input?output_format=pcm_{RATE}",
        [{"text": " "}, {"text": TWO_SENTENCES}, {"text": ""}],
    ),
    "cartesia": (
        "/tts/websocket?cartesia_version=2026-03-01",
        [CARTESIA | {"transcript": TWO_SENTENCES}],
    ),
}


@pytest.mark.parametrize("kind", SESSIONS)
async def test_the_first_sound_of_a_sentence_that_a_sessions_listener_awaits_is_counted(
    tiny_server: Server, kind: str
) -> None:
    """The second sentence is not awaited in silence. Wyoming's test is beside its others."""
    path, messages = SESSIONS[kind]
    before = counted(tiny_server, kind)
    async with asyncio.timeout(PATIENCE), connect(tiny_server.url.replace("http", "ws", 1) + path) as socket:
        for message in messages:
            await socket.send(json.dumps(message))
        async for received in socket:
            if kind == "cartesia" and json.loads(received)["type"] == "done":
                break
    count, seconds = counted(tiny_server, kind)
    assert count == before[0] + 1
    assert seconds > before[1] + LEAD / 2


def test_an_answer_without_sound_does_not(tiny_server: Server) -> None:
    for body in ({"text": "[pause:1s]"}, {"text": '<speak><break time="1s"/></speak>', "ssml": True}):
        answer = httpx.post(f"{tiny_server.url}/tts", json=body, timeout=300)
        assert "audible" not in answer.headers.get("server-timing", "")
    subtitles = post(tiny_server, "/tts/captioned", text="Hello there.", format="srt")
    assert "audible" not in steps(subtitles)


def spoken(answer: httpx.Response, *, events: bool) -> tuple[bytes, list[dict[str, Any]]]:
    if not events:
        found = answer.json()
        return base64.b64decode(found["audio"]), found["words"]
    parts = [json.loads(line) for line in answer.text.splitlines()]
    audio = [part for part in parts if part["type"] == "audio"]
    return b"".join(base64.b64decode(part["audio"]) for part in audio), [w for part in audio for w in part["words"]]


@pytest.mark.parametrize("format", ["mp3", "aac"])
@pytest.mark.parametrize("events", [False, True])
def test_words_are_where_a_player_of_the_file_hears_them(tiny_server: Server, format: str, events: bool) -> None:
    headers = {"Accept": "application/x-ndjson"} if events else {}
    # The loud beginning leaves no silence that could make up for the codec's delay, which is long at a low rate.
    body = {"text": "Hello there, my friend.", "volume": 20, "sample_rate": 8_000}
    plain, expected = spoken(post(tiny_server, "/tts/captioned", headers, **body, format="wav"), events=events)
    data, words = spoken(post(tiny_server, "/tts/captioned", headers, **body, format=format), events=events)
    audio, decoded = decode(plain, "wav"), decode(data, format)
    size = 1 << (len(audio) + len(decoded)).bit_length()
    product = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(audio, size))
    late = int(np.argmax(np.fft.irfft(product, size)[: size // 2])) / RATE
    shifts = {round(word["start"] - before["start"], 3) for word, before in zip(words, expected, strict=True)}
    assert len(shifts) <= 2  # rounded
    assert max(shifts) == pytest.approx(late, abs=0.005)
    assert (late > 0.02) == (format == "aac" or events)
