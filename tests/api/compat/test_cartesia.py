"""Requests as Cartesia's SDK, pipecat and LiveKit send them, against a running server."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

from kokoro_server.api.compat.cartesia.events import WrittenWords
from kokoro_server.api.compat.cartesia.websocket import MAX_CONTEXTS
from kokoro_server.audio.join import LEAD, TAIL
from kokoro_server.synthesis.captions import Timing
from kokoro_server.text.pauses import NATURAL_PAUSES
from tests.audio_files import assert_same_samples, decode
from tests.servers import Server, say

PATIENCE = 120  # seconds
FOLLOWING = NATURAL_PAUSES.sentence - TAIL  # seconds before a sentence that follows another one of its turn
SENTENCES = ["Hello, world.", "It was late."]
TEXT = " ".join(SENTENCES)
LONG = "It was late, and the lights were on; nobody knew why. " * 20
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
BODY: dict[str, Any] = {
    "model_id": "sonic-3",
    "transcript": TEXT,
    "voice": {"mode": "id", "id": "af_heart"},
    "output_format": RAW,
    "language": "en",
}
UUID = "6ccbfb76-1fc6-48f7-b71d-91ac6298247b"  # of one of Cartesia's voices


def post(server: Server, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=BODY | fields, timeout=PATIENCE)


def streamed(server: Server, **fields: Any) -> bytes:
    body = {"text": TEXT, "format": "pcm", **fields}
    return httpx.post(f"{server.url}/tts/stream", json=body, timeout=PATIENCE).content


def captioned(server: Server, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.post(
        f"{server.url}/tts/captioned", json={"text": text}, timeout=PATIENCE
    ).json()["words"]
    return found


class Agent:
    """What a client got, by context."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.audio: dict[str | None, bytes] = {}
        self.events: list[dict[str, Any]] = []

    async def send(self, context: str, transcript: str = "", *, more: bool = True, **fields: Any) -> None:
        message = BODY | {"context_id": context, "transcript": transcript, "continue": more} | fields
        await self.connection.send(json.dumps(message))

    async def until(self, type: str, context: str | None) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                event = json.loads(await self.connection.recv())
                if event["type"] == "chunk":
                    heard = self.audio.get(event["context_id"], b"")
                    self.audio[event["context_id"]] = heard + base64.b64decode(event["data"])
                self.events.append(event)
                if (event["type"], event["context_id"]) == (type, context):
                    return event

    def words(self) -> list[tuple[str, float, float]]:
        told = [event["word_timestamps"] for event in self.events if event["type"] == "timestamps"]
        return [word for each in told for word in zip(each["words"], each["start"], each["end"], strict=True)]


@asynccontextmanager
async def agent(server: Server, path: str = "/tts/websocket") -> AsyncIterator[Agent]:
    url = f"{server.url.replace('http', 'ws', 1)}{path}?cartesia_version=2026-03-01"
    async with connect(url, max_size=2**20) as connection:
        yield Agent(connection)


def assert_spoken(server: Server, audio: bytes, sentences: list[str]) -> None:
    clips = (say(server, text, format="pcm", lead=FOLLOWING if n else LEAD) for n, text in enumerate(sentences))
    assert_same_samples(audio, b"".join(clip.content for clip in clips))


def test_words_have_the_marks_around_them() -> None:
    text = 'He said: "Stop!", and - well-known - left.'
    spans = [(0, 2), (3, 7), (10, 14), (18, 21), (24, 28), (29, 34), (37, 41)]
    timings = [Timing(text[start:end], n, n + 1, start, end, False) for n, (start, end) in enumerate(spans)]
    words = WrittenWords(text)
    told = words.timed(timings[:3], 1.0) + words.timed(timings[3:], 1.0)
    assert [word for word, _, _ in told] == ["He", "said:", '"Stop!",', "and", "well-", "known", "left."]
    assert told[0][1:] == (1.0, 2.0)


def test_words_without_spaces_between_them_are_told_once() -> None:
    text = "你好，世界。今天很好。"
    spans = [(0, 2), (3, 5), (6, 8), (8, 10)]
    timings = [Timing(text[start:end], n, n + 1, start, end, True) for n, (start, end) in enumerate(spans)]
    words = WrittenWords(text)
    told = words.timed(timings[:2], 0.0) + words.timed(timings[2:], 0.0)
    assert [word for word, _, _ in told] == ["你好，", "世界。", "今天", "很好。"]


@pytest.mark.parametrize(
    ("fields", "ours"),
    [
        ({}, {}),
        ({"voice": "bf_emma"}, {"voice": "bf_emma"}),  # `en` is the voice's own English
        ({"voice": {"id": "af_heart"}, "language": "es"}, {"language": "es"}),
        ({"language": None, "locale": "en-AU"}, {}),
        (
            {"output_format": RAW | {"encoding": "pcm_f32le", "sample_rate": 44100}},
            {"sample_format": "pcm_f32le", "sample_rate": 44100},
        ),
        (
            {"output_format": RAW | {"encoding": "pcm_mulaw", "sample_rate": 8000}},
            {"sample_format": "pcm_mulaw", "sample_rate": 8000},
        ),
        ({"generation_config": {"speed": 1.2, "volume": 0.5, "emotion": "neutral"}}, {"speed": 1.2, "volume": -6.0206}),
        ({"normalization": "off", "transcript": "It is $5."}, {"normalize": False, "text": "It is $5."}),
        ({"use_normalized_timestamps": True, "save": True, "voice": {"id": "af_heart", "mode": "id"}}, {}),
        # A voice in the text speaks its own language.
        ({"transcript": "Hello. [voice:ff_siwis] Bonjour."}, {"text": "Hello. [voice:ff_siwis] Bonjour."}),
    ],
)
def test_bytes_are_those_of_our_stream(tiny_server: Server, fields: dict[str, Any], ours: dict[str, Any]) -> None:
    answer = post(tiny_server, "/tts/bytes", **fields)
    assert answer.status_code == 200, answer.text
    assert_same_samples(answer.content, streamed(tiny_server, **ours), ours.get("sample_format", "pcm_s16le"))


def test_files(tiny_server: Server) -> None:
    wav = post(tiny_server, "/cartesia/tts/bytes", output_format=RAW | {"container": "wav"})
    whole = say(tiny_server, TEXT).content
    assert wav.content[:44] == whole[:44]
    assert_same_samples(wav.content[44:], whole[44:])
    mp3 = post(tiny_server, "/tts/bytes", output_format={"container": "mp3", "sample_rate": 44100, "bit_rate": 128000})
    seconds = len(decode(mp3.content, "mp3")) / 24_000
    assert len(mp3.content) * 8 / seconds == pytest.approx(128_000, rel=0.1)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"voice": {"mode": "id", "id": UUID}}, UUID),
        ({"voice": {"mode": "embedding", "embedding": [0.0] * 192}}, "voice"),
        ({"output_format": RAW | {"container": "ogg"}}, "output_format"),
        ({"output_format": RAW | {"encoding": "pcm_s24le"}}, "encoding"),
        ({"language": "de"}, "de"),
        ({"generation_config": {"emotion": "angry"}}, "emotion"),
        ({"generation_config": {"speed": 9}}, "speed"),
        ({"pronunciation_dict_id": "mine"}, "pronunciation_dict_id"),
        ({"duration": 2.0}, "duration"),
        (
            {"voice": {"mode": "id", "id": "af_heart", "__experimental_controls": {"speed": "fast"}}},
            "__experimental_controls",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(tiny_server: Server, fields: dict[str, Any], named: str) -> None:
    answer = post(tiny_server, "/tts/bytes", **fields)
    assert answer.status_code == 400
    assert {"error_code", "title", "message", "request_id"} <= set(answer.json())
    assert named in answer.json()["message"]


def test_events(tiny_server: Server) -> None:
    answer = post(tiny_server, "/tts/sse", add_timestamps=True, context_id="mine")
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert {event["context_id"] for event in events} == {"mine"}
    assert events[-1] == {"type": "done", "context_id": "mine", "status_code": 200, "done": True}
    audio = b"".join(base64.b64decode(event["data"]) for event in events if event["type"] == "chunk")
    assert_same_samples(audio, streamed(tiny_server))
    told = [event["word_timestamps"] for event in events if event["type"] == "timestamps"]
    assert " ".join(word for each in told for word in each["words"]) == TEXT
    # The tiny model says a piece at another pace than the whole, so it is compared with a stream.
    accept = {"Accept": "application/x-ndjson"}
    ours = httpx.post(f"{tiny_server.url}/tts/captioned", json={"text": TEXT}, headers=accept, timeout=PATIENCE).text
    expected = [word["start"] for line in ours.splitlines() for word in json.loads(line).get("words", ())]
    assert [start for each in told for start in each["start"]] == pytest.approx(expected, abs=0.1)


def test_events_have_the_times_of_phonemes(tiny_server: Server) -> None:
    answer = post(tiny_server, "/tts/sse", add_timestamps=True, add_phoneme_timestamps=True)
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    found = [event["phoneme_timestamps"] for event in events if event["type"] == "phoneme_timestamps"]
    words = [event["word_timestamps"] for event in events if event["type"] == "timestamps"]
    assert "".join(symbol for each in found for symbol in each["phonemes"]).startswith("həlˈO")
    assert found[0]["start"][0] == words[0]["start"][0]
    assert found[-1]["end"][-1] == words[-1]["end"][-1]
    assert all(len(each["phonemes"]) == len(each["start"]) == len(each["end"]) for each in found)


async def test_phoneme_times_in_a_conversation_count_from_its_start(tiny_server: Server) -> None:
    async with agent(tiny_server, "/cartesia/tts/websocket") as it:
        for sentence in SENTENCES:
            await it.send("a", sentence + " ", add_phoneme_timestamps=True, max_buffer_delay_ms=0)
        await it.send("a", " ", more=False, max_buffer_delay_ms=0)
        await it.until("done", "a")
    assert not it.words()
    found = [event["phoneme_timestamps"] for event in it.events if event["type"] == "phoneme_timestamps"]
    assert len(found) == 2
    starts = [start for each in found for start in each["start"]]
    assert starts == sorted(starts)
    assert starts[-1] < len(it.audio["a"]) / 2 / 24_000


def test_voices_come_page_by_page(tiny_server: Server) -> None:
    def page(**parameters: Any) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{tiny_server.url}/cartesia/voices", params=parameters).json()
        return found

    names: list[str] = []
    while data := page(limit=4, **({"starting_after": names[-1]} if names else {}))["data"]:
        names += [voice["id"] for voice in data]
    assert names == [voice["name"] for voice in httpx.get(f"{tiny_server.url}/voices").json()["voices"]]
    assert [voice["id"] for voice in page(limit=2, ending_before=names[3])["data"]] == names[1:3]
    assert [voice["id"] for voice in page(q="emma", gender="feminine")["data"]] == ["bf_emma"]
    assert "nobody" in page(starting_after="nobody")["message"]
    one = httpx.get(f"{tiny_server.url}/cartesia/voices/bf_emma").json()
    assert (one["name"], one["language"], one["locales"]) == ("Emma", "en", [{"locale": "en-GB", "is_native": True}])


async def test_sentences_as_livekit_sends_them(tiny_server: Server) -> None:
    async with agent(tiny_server, "/cartesia/tts/websocket") as it:
        for sentence in SENTENCES:
            await it.send("a", sentence + " ", add_timestamps=True, max_buffer_delay_ms=0)
        await it.send("a", " ", more=False, add_timestamps=True, max_buffer_delay_ms=0)
        assert await it.until("done", "a") == {"type": "done", "context_id": "a", "status_code": 200, "done": True}
    assert_spoken(tiny_server, it.audio["a"], SENTENCES)
    assert " ".join(word for word, _, _ in it.words()) == TEXT
    begins = [0.0, float(say(tiny_server, SENTENCES[0]).headers["x-audio-duration"]) + FOLLOWING - LEAD]
    expected = [
        (begin + word["start"], begin + word["end"])
        for begin, sentence in zip(begins, SENTENCES, strict=True)
        for word in captioned(tiny_server, sentence)
    ]
    np.testing.assert_allclose([word[1:] for word in it.words()], expected, atol=0.1)


async def test_the_end_does_not_say_how_to_speak(tiny_server: Server) -> None:
    """As the SDK ends a context whose voice it was told with each transcript."""
    async with agent(tiny_server) as it:
        await it.send("a", SENTENCES[0])
        await it.send("a", "", more=False, voice=UUID, output_format=RAW | {"encoding": "pcm_f32le"})
        await it.until("done", "a")
        assert_spoken(tiny_server, it.audio["a"], SENTENCES[:1])
        await it.send("b", "", more=False, voice=UUID)
        await it.until("done", "b")
        assert "b" not in it.audio


async def test_text_that_stops_is_spoken(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("a", "Well", max_buffer_delay_ms=10)
        await it.until("chunk", "a")
        await it.send("b", SENTENCES[0], max_buffer_delay_ms=None)
        await it.until("chunk", "b")  # a whole sentence waits for nothing


async def test_flushes_are_numbered(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("a", "Yes.", flush=True)
        assert (await it.until("flush_done", "a"))["flush_id"] == 1
        await it.send("a", flush=True)
        assert (await it.until("flush_done", "a"))["flush_id"] == 2
        await it.send("a", "No.", more=False)
        await it.until("done", "a")
    assert [event["flush_id"] for event in it.events if event["type"] == "chunk"][:: len(it.events)] == [1]
    assert {event["flush_id"] for event in it.events if event["type"] == "chunk"} == {1, 3}


async def test_contexts_are_spoken_side_by_side(tiny_server: Server) -> None:
    names = [str(n) for n in range(3)]
    async with agent(tiny_server) as it:
        for name in names:
            await it.send(name, SENTENCES[0], more=False)
        for name in names:
            if not any(event["type"] == "done" and event["context_id"] == name for event in it.events):
                await it.until("done", name)
    for name in names:
        assert_spoken(tiny_server, it.audio[name], SENTENCES[:1])


async def test_cancel_drops_a_context_at_once(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("a", LONG)
        await it.send("b", SENTENCES[0])
        await it.connection.send(json.dumps({"context_id": "a", "cancel": True}))
        await it.connection.send(json.dumps({"context_id": "nobody's", "cancel": True}))
        await it.send("b", "", more=False)
        await it.until("done", "b")
        assert_spoken(tiny_server, it.audio["b"], SENTENCES[:1])
        async with httpx.AsyncClient() as client:
            status = (await client.get(f"{tiny_server.url}/health/batching")).json()["queue_status"]
        assert (status["current_size"], status["preparing"]) == (0, 0)
        assert not any(event["type"] in ("done", "error") for event in it.events[:-1])


async def test_errors_belong_to_their_context(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("ok", SENTENCES[0])
        await it.send("a", "Hello.", voice=UUID)
        error = await it.until("error", "a")
        assert (error["done"], error["status_code"], error["error_code"]) == (False, 400, "unknown_voice")
        assert UUID in error["message"]
        assert error["message"] in error["error"]
        await it.send("a", "Hello.", output_format=RAW | {"container": "wav"})
        assert "container" in (await it.until("error", "a"))["message"]
        await it.send("a", "x" * 20_000)
        assert (await it.until("error", None))["status_code"] == 413
        for wrong in ("", "[1]", "{", b"\x00", "{}", '{"context_id":3}'):
            await it.connection.send(wrong)
            await it.until("error", None)
        await it.send("ok", more=False)
        await it.send("ok", "Too late.")
        assert "context_id" in (await it.until("error", "ok"))["message"]
        await it.until("done", "ok")
        assert_spoken(tiny_server, it.audio["ok"], SENTENCES[:1])


async def test_a_sentence_that_fails_ends_its_context(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("a", "[voice:nobody]Hello. " + LONG, more=False)
        assert (await it.until("error", "a"))["error_code"] == "unknown_voice"
        await it.send("a", SENTENCES[0], more=False)
        await it.until("done", "a")
        assert_spoken(tiny_server, it.audio["a"], SENTENCES[:1])


async def test_a_thousand_contexts_are_not_kept(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        for n in range(1000):
            await it.send(f"idle {n}")
        for n in range(MAX_CONTEXTS + 1):
            await it.send(f"busy {n}", "Nobody has come yet, and so", max_buffer_delay_ms=5000)
        assert (await it.until("error", f"busy {MAX_CONTEXTS}"))["status_code"] == 429
        await it.connection.send(json.dumps({"context_id": "busy 0", "cancel": True}))
        await it.send("a", "Yes.", more=False)
        await it.until("done", "a")
        assert it.audio["a"]
