"""Messages as pipecat, LiveKit and ElevenLabs' own client send them, with a real WebSocket client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kokoro_server.api.compat.elevenlabs.websockets import MAX_CONTEXTS
from tests.audio_files import decode
from tests.servers import Server

PATIENCE = 120  # seconds
RATE = 24_000
SENTENCES = ["Hello there, my friend.", "It cost $5 on May 3rd.", "What do you think?"]
INIT = {"text": " ", "voice_settings": {"stability": 0.5, "similarity_boost": 0.8}}


@dataclass
class Heard:
    """What came of a context."""

    audio: bytes = b""
    characters: str = ""
    starts: list[float] = field(default_factory=list)  # milliseconds from the beginning of the context
    clock: float = 0.0  # milliseconds, as pipecat counts them
    is_final: bool = False

    def take(self, message: dict[str, Any], *, cumulative: bool = False) -> None:
        assert not self.is_final
        self.is_final = bool(message.get("isFinal"))
        self.audio += base64.b64decode(message.get("audio") or "")
        if alignment := message.get("alignment"):
            assert message["normalizedAlignment"] == alignment
            starts, durations = alignment["charStartTimesMs"], alignment["charDurationsMs"]
            assert len(alignment["chars"]) == len(starts) == len(durations)
            self.characters += "".join(alignment["chars"])
            self.starts += [start + (0 if cumulative else self.clock) for start in starts]
            self.clock = starts[-1] + durations[-1] + (0 if cumulative else self.clock)

    @property
    def seconds(self) -> float:
        return len(self.audio) / 2 / RATE


class Client:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE))
        return message

    async def until_final(self, *names: str | None, cumulative: bool = False) -> dict[str | None, Heard]:
        heard: dict[str | None, Heard] = defaultdict(Heard)
        while not all(heard[name].is_final for name in names):
            message = await self.receive()
            assert "error" not in message, message
            heard[message.get("contextId")].take(message, cumulative=cumulative)
        return heard

    async def until_closed(self) -> tuple[list[dict[str, Any]], int]:
        """The messages up to the end, and its code."""
        received = list[dict[str, Any]]()
        try:
            while True:
                received.append(await self.receive())
        except ConnectionClosed as end:
            return received, end.rcvd.code if end.rcvd else 1006


@asynccontextmanager
async def connected(
    server: Server, kind: str = "multi-stream-input", voice: str = "af_heart", prefix: str = "", **query: Any
) -> AsyncIterator[Client]:
    about = "&".join(f"{name}={value}" for name, value in ({"output_format": "pcm_24000"} | query).items())
    url = server.url.replace("http", "ws") + f"{prefix}/v1/text-to-speech/{voice}/{kind}?{about}"
    async with connect(url, additional_headers={"xi-api-key": "any"}, max_size=None) as socket:
        yield Client(socket)


def check_times(heard: Heard, text: str) -> None:
    assert heard.characters.strip() == text
    assert all(before <= after for before, after in pairwise(heard.starts))
    assert heard.clock / 1000 == pytest.approx(heard.seconds, abs=0.05)


def word_starts(server: Server, sentences: list[str]) -> list[float]:
    """Of each word, in milliseconds, if each sentence is a clip for itself."""
    starts, begin = list[float](), 0.0
    for sentence in sentences:
        answer = httpx.post(f"{server.url}/tts/captioned", json={"text": sentence}, timeout=PATIENCE).json()
        starts += [1000 * (begin + word["start"]) for word in answer["words"]]
        begin += answer["duration"]
    return starts


async def test_a_turn_as_pipecat_sends_it(tiny_server: Server) -> None:
    async with connected(tiny_server, auto_mode="true", model_id="eleven_flash_v2_5") as client:
        await client.send({"text": ""}, {"context_id": "a", **INIT})
        await client.send(*({"text": sentence, "context_id": "a"} for sentence in SENTENCES))
        await client.send({"text": "", "context_id": "a"}, {"context_id": "a", "flush": True})
        await client.send({"context_id": "a", "close_context": True})
        heard = (await client.until_final("a"))["a"]
        check_times(heard, " ".join(SENTENCES))
        assert heard.characters.endswith(" "), "pipecat takes a word for whole when a space comes after it"
        await client.send({"context_id": "a", "close_context": True}, {"close_socket": True})
        assert await client.until_closed() == ([], 1000)


@pytest.mark.parametrize("output_format", ["pcm_24000", "mp3_22050_32"])
async def test_a_turn_as_livekit_sends_it(tiny_server: Server, output_format: str) -> None:
    query = {"sync_alignment": "true", "auto_mode": "true", "enable_ssml_parsing": "false", "inactivity_timeout": 180}
    async with connected(tiny_server, prefix="/elevenlabs", output_format=output_format, **query) as client:
        for name in ("a", "b"):
            await client.send({"text": " ", "voice_settings": {}, "context_id": name})
            await client.send(*({"text": f"{one} ", "context_id": name, "flush": True} for one in SENTENCES))
            await client.send({"text": "", "context_id": name, "flush": True})
            await client.send({"context_id": name, "close_context": True})
        heard = await client.until_final("a", "b", cumulative=True)
    for each in heard.values():
        assert each.characters == "".join(f"{one} " for one in SENTENCES)
        assert all(before <= after for before, after in pairwise(each.starts))
        if output_format.startswith("mp3"):
            assert len(decode(each.audio, "mp3")) / RATE == pytest.approx(each.clock / 1000, abs=0.2)
        else:
            check_times(each, " ".join(SENTENCES))


async def test_words_are_said_when_captions_say_so(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await client.send({"context_id": "a", **INIT})
        for sentence in SENTENCES:
            await client.send({"text": f"{sentence} ", "context_id": "a", "flush": True})
        await client.send({"context_id": "a", "close_context": True})
        heard = (await client.until_final("a"))["a"]
    begins = [n for n, c in enumerate(heard.characters) if c != " " and (n == 0 or heard.characters[n - 1] == " ")]
    expected = await asyncio.to_thread(word_starts, tiny_server, SENTENCES)
    assert len(expected) == len(begins)
    assert [heard.starts[n] for n in begins] == pytest.approx(expected, abs=100)


async def test_an_utterance_as_their_own_client_sends_it(tiny_server: Server) -> None:
    text = " ".join(SENTENCES)
    async with connected(tiny_server, "stream-input") as client:
        await client.send(
            {**INIT, "try_trigger_generation": True, "generation_config": {"chunk_length_schedule": [50]}}
        )
        for word in text.split():
            await client.send({"text": f"{word} ", "try_trigger_generation": True})
        await client.send({"text": ""})
        messages, code = await client.until_closed()
    heard = Heard()
    for message in messages:
        heard.take(message)
    assert code == 1000
    assert heard.is_final
    check_times(heard, text)


async def test_what_is_flushed_is_said_while_the_context_stays_open(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await client.send({"context_id": "a", **INIT}, {"text": "No end yet", "context_id": "a"})
        await client.send({"context_id": "a", "flush": True}, {"context_id": "nobody", "flush": True})
        heard = Heard()
        while heard.characters != "No end yet " or heard.seconds < heard.clock / 1000 - 0.001:
            heard.take(await client.receive())


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("ended", [False, True])
async def test_an_interruption_drops_what_is_not_said(tiny_server: Server, flush: bool, ended: bool) -> None:
    """The context is closed in the middle of a turn; or once more, when the turn had ended already."""
    many = [{"text": f"This is sentence {n} of very many. ", "context_id": "a", "flush": flush} for n in range(200)]
    async with connected(tiny_server, auto_mode="true") as client:
        await client.send({"context_id": "a", **INIT}, *many)
        if ended:
            await client.send({"context_id": "a", "flush": True}, {"context_id": "a", "close_context": True})
        await client.receive()
        await client.send({"context_id": "a", "close_context": True}, {"context_id": "b", **INIT})
        await client.send({"text": "Yes?", "context_id": "b"}, {"context_id": "b", "flush": True})
        await client.send({"context_id": "b", "close_context": True})
        heard = await client.until_final("a", "b")
    assert heard["b"].characters == "Yes? "
    assert heard["a"].characters.count("sentence") < 100


async def test_a_new_context_does_not_wait_for_an_old_one(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await client.send({"context_id": "a", **INIT})
        await client.send(*({"text": f"This is sentence number {n}. ", "context_id": "a"} for n in range(10)))
        await client.send({"context_id": "a", "flush": True}, {"context_id": "a", "close_context": True})
        await client.send({"context_id": "b", **INIT}, {"text": "Yes?", "context_id": "b", "flush": True})
        await client.send({"context_id": "b", "close_context": True})
        heard = await client.until_final("b")
        assert not heard["a"].is_final
        heard["a"].clock, heard["a"].starts = 0.0, []
        rest = await client.until_final("a")
        assert (heard["a"].characters + rest["a"].characters).count("sentence") == 10


async def test_a_socket_closes_when_all_its_contexts_are_said(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        for name in ("a", "b", "c"):
            await client.send({"context_id": name, **INIT})
        await client.send({"text": "The last one has", "context_id": "c"}, {"close_socket": True}, {"text": ""})
        messages, code = await client.until_closed()
    heard: dict[str, Heard] = defaultdict(Heard)
    for message in messages:
        heard[message["contextId"]].take(message)
    assert code == 1000
    assert {name for name, each in heard.items() if each.is_final} == {"a", "b", "c"}
    assert heard["c"].characters == "The last one has"
    assert heard["c"].seconds > 0


async def test_a_name_may_be_used_again(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        for _ in range(3 * MAX_CONTEXTS):
            await client.send({"context_id": "a", **INIT}, {"context_id": "a", "close_context": True})
            assert await client.receive() == {"isFinal": True, "contextId": "a"}


async def test_a_name_that_is_used_again_at_once_is_spoken_after_the_first(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        for n in range(2):
            await client.send(*({"text": f"Number {n} says {m}. "} for m in range(5)))
            await client.send({"flush": True}, {"close_context": True})
        for n in range(2):
            heard = (await client.until_final(None))[None]
            check_times(heard, " ".join(f"Number {n} says {m}." for m in range(5)))
        for n in range(2):
            await client.send({"text": f"Number {n} says a lot. " * 20, "flush": True}, {"close_context": True})
        await client.send({"close_context": True})  # both
        for _ in range(2):
            assert (await client.until_final(None))[None].characters.count("lot") < 20


@pytest.mark.parametrize("auto_mode", ["true", "false"])
async def test_a_last_text_may_come_with_the_end(tiny_server: Server, auto_mode: str) -> None:
    async with connected(tiny_server, auto_mode=auto_mode) as client:
        await client.send({"text": "Hello ", "context_id": "a"})
        await client.send({"text": "there.", "context_id": "a", "close_context": True})
        check_times((await client.until_final("a"))["a"], "Hello there.")
        await client.send({"text": "Bye.", "context_id": "b", "close_socket": True})
        check_times((await client.until_final("b"))["b"], "Bye.")
        assert await client.until_closed() == ([], 1000)


@pytest.mark.parametrize(
    ("query", "messages", "error", "named"),
    [
        ({"voice": "hpp4J3VqNfWAUOO0d1Us"}, [json.dumps(INIT)], "voice_not_found", "GET /voices"),
        ({"output_format": "mp3_44100_33"}, [json.dumps(INIT)], "invalid_input", "32000"),
        ({"inactivity_timeout": 10_000}, [json.dumps(INIT)], "invalid_input", "inactivity_timeout"),
        ({"enable_ssml_parsing": "true"}, [json.dumps(INIT)], "invalid_input", "enable_ssml_parsing"),
        ({"language_code": "xx"}, [json.dumps(INIT)], "unknown_language", "xx"),
        ({"inactivity_timeout": 0.2}, [], "bad_request", "inactivity_timeout"),
        ({}, ["no JSON"], "bad_request", "JSON"),
        ({}, [b"\x00"], "bad_request", "binary"),
        ({}, ["[]"], "invalid_input", ""),
        ({}, [json.dumps({"text": "x" * 20_000})], "text_too_long", "16384"),
        ({}, [json.dumps({"text": " ", "voice_settings": {"speed": 99}})], "invalid_input", "voice_settings.speed"),
        ({}, [json.dumps({"text": " ", "pronunciation_dictionary_locators": [{}]})], "invalid_input", "LEXICON_PATH"),
        ({}, [json.dumps({"text": " ", "context_id": f"{n}"}) for n in range(1000)], "bad_request", "20 contexts"),
        ({}, [json.dumps({"text": "[voice:x]Hi.", "context_id": "a", "flush": True})], "voice_not_found", "'x'"),
    ],
)
async def test_what_is_wrong_is_told_before_the_socket_closes(
    tiny_server: Server, query: dict[str, Any], messages: list[str | bytes], error: str, named: str
) -> None:
    for kind in ("multi-stream-input", "stream-input"):
        if kind == "stream-input" and "contexts" in named:
            continue
        async with connected(tiny_server, kind, **query) as client:
            try:
                for message in messages:
                    await client.socket.send(message)
            except ConnectionClosed:
                pass
            received, code = await client.until_closed()
            assert code == 1008
            assert received[-1]["error"] == error, received
            assert received[-1]["code"] == 1008
            assert named in received[-1]["message"]
