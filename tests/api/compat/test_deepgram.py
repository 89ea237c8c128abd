"""Requests as Deepgram's SDK, pipecat and LiveKit send them, against a running server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from kokoro_server.api.compat.deepgram.voices import NEAREST
from kokoro_server.audio.join import LEAD, TAIL
from kokoro_server.text.pauses import NATURAL_PAUSES
from kokoro_server.voices import GRADES
from tests.audio_files import assert_same_samples, decode
from tests.servers import Server, say

PATIENCE = 120  # seconds
FOLLOWING = NATURAL_PAUSES.sentence - TAIL  # seconds before a sentence that follows another one of its turn
SENTENCES = ["Hello, world.", "It was late."]
TEXT = " ".join(SENTENCES)
LONG = "It was late, and the lights were on; nobody knew why. " * 20
PIPECAT = "model=aura-2-helena-en&encoding=linear16&sample_rate=24000"
LIVEKIT = "encoding=linear16&model=aura-2-andromeda-en&sample_rate=24000&mip_opt_out=false"


def speak(server: Server, text: str = TEXT, path: str = "/v1/speak", **parameters: Any) -> httpx.Response:
    return httpx.post(server.url + path, params=parameters, json={"text": text}, timeout=PATIENCE)


class Agent:
    """What a client got."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.audio = b""
        self.events: list[dict[str, Any]] = []

    async def send(self, type: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": type, **fields}))

    async def until(self, type: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await self.connection.recv()
                if isinstance(message, bytes):
                    self.audio += message
                    continue
                self.events.append(json.loads(message))
                if self.events[-1]["type"] == type:
                    return self.events[-1]

    async def closed(self) -> int | None:
        """All that comes up to the end, and the code of it."""
        try:
            await self.until("nothing of this type")
        except ConnectionClosed as end:
            return end.rcvd.code if end.rcvd else None
        return None


@asynccontextmanager
async def agent(server: Server, query: str = PIPECAT, path: str = "/v1/speak", **options: Any) -> AsyncIterator[Agent]:
    url = f"{server.url.replace('http', 'ws', 1)}{path}?{query}"
    async with connect(url, max_size=2**20, **options) as connection:
        found = Agent(connection)
        await found.until("Connected" if "v2" in path else "Metadata")
        yield found


def assert_spoken(server: Server, audio: bytes, sentences: list[str]) -> None:
    clips = (say(server, text, format="pcm", lead=FOLLOWING if n else LEAD) for n, text in enumerate(sentences))
    assert_same_samples(audio, b"".join(clip.content for clip in clips))


async def batching(server: Server) -> dict[str, Any]:
    async with httpx.AsyncClient() as client:
        found: dict[str, Any] = (await client.get(f"{server.url}/health/batching")).json()
        return found


def test_every_name_of_theirs_is_a_voice_of_ours() -> None:
    assert set(NEAREST.values()) <= set(GRADES)


@pytest.mark.parametrize(
    ("parameters", "format", "ours"),
    [
        ({"encoding": "linear16", "container": "none", "sample_rate": 24000}, "pcm", {"format": "pcm"}),
        ({"encoding": "linear16"}, "wav", None),
        ({"encoding": "LINEAR16", "container": "WAV", "sample_rate": "16000.0"}, "wav", None),
        (
            {"encoding": "mulaw", "container": "none"},
            "pcm",
            {"format": "pcm", "sample_format": "pcm_mulaw", "sample_rate": 8000},
        ),
        (
            {"encoding": "alaw", "container": "none", "sample_rate": 16000},
            "pcm",
            {"format": "pcm", "sample_format": "pcm_alaw", "sample_rate": 16000},
        ),
        ({}, "mp3", None),
        ({"encoding": "mp3", "bit_rate": 48000}, "mp3", None),
        ({"encoding": "opus", "tag": "mine", "mip_opt_out": "true"}, "opus", None),
        ({"encoding": "flac"}, "flac", None),
    ],
)
def test_a_text_by_http(
    tiny_server: Server, parameters: dict[str, Any], format: str, ours: dict[str, Any] | None
) -> None:
    answer = speak(tiny_server, model="aura-2-helena-en", **parameters)
    assert answer.status_code == 200, answer.text
    if ours is None:
        assert decode(answer.content, format).any()
    else:
        streamed = httpx.post(f"{tiny_server.url}/tts/stream", json={"text": TEXT, **ours}, timeout=PATIENCE)
        assert_same_samples(answer.content, streamed.content, ours.get("sample_format", "pcm_s16le"))
    assert answer.headers["dg-model-name"] == "af_heart"
    assert answer.headers["dg-char-count"] == str(len(TEXT))
    assert answer.headers["dg-request-id"] == answer.headers["x-request-id"]


def test_the_prefix_the_voice_and_the_speed(tiny_server: Server) -> None:
    wanted = {"encoding": "linear16", "container": "none", "model": "bf_emma", "speed": 1.5}
    answer = speak(tiny_server, path="/deepgram/v1/speak", **wanted)
    streamed = {"text": TEXT, "voice": "bf_emma", "speed": 1.5, "format": "pcm"}
    expected = httpx.post(f"{tiny_server.url}/tts/stream", json=streamed, timeout=PATIENCE).content
    assert_same_samples(answer.content, expected)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"model": "aura-2-viktoria-de"}, "aura-2-viktoria-de"),
        ({"model": "nobody"}, "nobody"),
        ({"encoding": "vorbis"}, "encoding"),
        ({"encoding": "mp3", "container": "ogg"}, "container"),
        ({"encoding": "mp3", "bit_rate": 47000}, "bit_rate"),
        ({"encoding": "aac", "bit_rate": 48000}, "bit_rate"),
        ({"encoding": "opus", "sample_rate": 22050}, "sample_rate"),
        ({"sample_rate": 100}, "sample_rate"),
        ({"speed": 9}, "speed"),
        ({"callback": "http://localhost/"}, "callback"),
    ],
)
def test_what_cannot_be_done_is_refused(tiny_server: Server, parameters: dict[str, Any], named: str) -> None:
    answer = speak(tiny_server, **parameters)
    assert answer.status_code == 400
    assert set(answer.json()) == {"err_code", "err_msg", "request_id"}
    assert named in answer.json()["err_msg"]
    assert answer.headers["dg-error"] == answer.json()["err_msg"]
    assert answer.headers["dg-request-id"] == answer.json()["request_id"]


def test_a_missing_text_is_an_error(tiny_server: Server) -> None:
    missing = httpx.post(f"{tiny_server.url}/v1/speak", json={"url": "http://localhost/"})
    assert missing.status_code == 400
    assert "text" in missing.json()["err_msg"]


async def test_words_are_spoken_as_livekit_sends_them(tiny_server: Server) -> None:
    async with agent(tiny_server, LIVEKIT, path="/deepgram/v1/speak") as it:
        assert it.events[0]["model_name"] == "af_heart"
        assert it.connection.response is not None
        assert it.connection.response.headers["dg-request-id"] == it.events[0]["request_id"]
        for turn in range(2):  # the socket is used again
            it.audio = b""
            for word in TEXT.split():
                await it.send("Speak", text=f"{word} ")
            await it.send("Flush")
            assert (await it.until("Flushed"))["sequence_id"] == turn
            assert_spoken(tiny_server, it.audio, SENTENCES)


async def test_whole_sentences_do_not_wait_for_the_flush(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("Speak", text=TEXT + " And then")
        assert isinstance(await asyncio.wait_for(it.connection.recv(), PATIENCE), bytes)
    async with agent(tiny_server) as it:
        await it.send("Speak", text=SENTENCES[0] + " ")  # as pipecat sends them
        assert isinstance(await asyncio.wait_for(it.connection.recv(), PATIENCE), bytes)
        await it.send("Clear")
        await it.until("Cleared")
        for bit in ("I met ", "Dr. ", "Smith at No. ", "5 in the U.S. ", "Army"):
            await it.send("Speak", text=bit)
        await it.send("Flush")
        it.audio = b""
        await it.until("Flushed")
        assert_spoken(tiny_server, it.audio, ["I met Dr. Smith at No. 5 in the U.S. Army"])


async def test_a_sentence_that_fails_is_told_and_the_next_follows(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("Speak", text="[voice:nobody]Hello.[/voice] Yes.")
        await it.send("Flush")
        await it.until("Flushed")
        assert [event["type"] for event in it.events[1:]] == ["Error", "Flushed"]
        assert it.events[1]["code"] == "UNKNOWN_VOICE"
        assert_same_samples(it.audio, say(tiny_server, "Yes.", format="pcm", lead=FOLLOWING).content)


async def test_each_flush_is_answered_once(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("KeepAlive")
        for _ in range(3):
            await it.send("Flush")
        await it.send("Speak", text="Hello.")
        await it.send("Flush")
        for _ in range(4):
            await it.until("Flushed")
        assert [event.get("sequence_id") for event in it.events[1:]] == [0, 1, 2, 3]
        assert it.audio


async def test_clear_drops_everything_at_once(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        for _ in range(3):
            await it.send("Speak", text=LONG)
            await it.send("Flush")
            await it.send("Clear")
            await it.until("Cleared")
        assert [event["type"] for event in it.events[1:]] == ["Cleared"] * 3, "no Flushed of what was dropped"
        status = (await batching(tiny_server))["queue_status"]
        assert (status["current_size"], status["preparing"]) == (0, 0)
        it.audio = b""
        await it.send("Speak", text="Yes.")
        await it.send("Flush")
        await it.until("Flushed")
        assert_spoken(tiny_server, it.audio, ["Yes."])


async def test_close_speaks_the_rest(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("Speak", text="Yes.")
        await it.send("Close")
        assert await it.closed() == 1000
        assert_spoken(tiny_server, it.audio, ["Yes."])


async def test_wrong_messages_are_told_and_harm_nothing(tiny_server: Server) -> None:
    wrong: list[str | bytes] = ["", "[1]", "{", b"\x00", '{"type":"Speak"}', '{"type":"Speak","text":3}', '{"type":1}']
    async with agent(tiny_server) as it:
        for message in wrong:
            await it.connection.send(message)
            assert (await it.until("Error"))["description"]
        await it.send("Speak", text="x" * 20_000)
        assert (await it.until("Error"))["code"] == "TEXT_TOO_LONG"
        await it.send("Configure", speak={})
        assert "Configure" in (await it.until("Warning"))["description"]
        await it.send("Speak", text="— 🙂")  # nothing of it can be said
        await it.send("Flush")
        await it.until("Flushed")
        assert not it.audio


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("model=nobody%0A☃", "nobody"),
        ("model=aura-2-lara-de", "aura-2-lara-de"),
        ("encoding=mp3", "encoding"),
        ("bit_rate=48000", "bit_rate"),
        ("sample_rate=1", "sample_rate"),
        ("speed=x", "speed"),
    ],
)
async def test_a_handshake_is_refused_with_the_reason(tiny_server: Server, query: str, named: str) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        async with agent(tiny_server, query):
            pass
    assert refusal.value.response.status_code == 400
    assert named in refusal.value.response.headers["dg-error"]


async def test_a_page_sends_its_key_as_subprotocols(tiny_server: Server) -> None:
    offered = [Subprotocol("token"), Subprotocol("anything")]
    async with agent(tiny_server, subprotocols=offered) as it:
        assert it.connection.subprotocol == "token"


async def test_telephony(tiny_server: Server) -> None:
    async with agent(tiny_server, "encoding=mulaw&sample_rate=8000") as it:
        await it.send("Speak", text=TEXT)
        await it.send("Flush")
        await it.until("Flushed")
    seconds = sum(float(say(tiny_server, text).headers["x-audio-duration"]) for text in SENTENCES)
    assert len(it.audio) == pytest.approx((seconds + FOLLOWING - LEAD) * 8000, abs=2)
