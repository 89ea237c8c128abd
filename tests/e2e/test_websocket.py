"""Voice agents on `/tts/ws`, with a real WebSocket client."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kokoro_server.audio.join import LEAD, TAIL
from kokoro_server.text.pauses import NATURAL_PAUSES
from tests import backends, servers
from tests.audio_files import decode
from tests.servers import Server, assert_same_audio, say

PATIENCE = 300  # seconds
RATE = 24_000
FOLLOWING = NATURAL_PAUSES.sentence - TAIL  # seconds before a sentence that follows another one of its turn
SENTENCES = [
    "Yes.",
    "It costs 3.14 dollars.",
    "Dr. Smith will see you at 5 p.m. tomorrow.",
    "What do you mean?",
    "No, I have not heard of it!",
    "The U.S. Army has a base near here.",
    "Well, that is a long story, and I am not sure that you have the time to hear it now.",
    "Look at No. 5 on your list.",
    '"Stop!" he said.',
    "Then they all went home.",
]


@dataclass
class Spoken:
    """What a client got between `start` and `done`."""

    text: str
    audio: bytes = b""
    words: list[dict[str, Any]] = field(default_factory=list)
    duration: float = -1.0


class Agent:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.spoken: dict[int, Spoken] = {}
        self.events: list[dict[str, Any]] = []
        self.last_id = 0

    async def send(self, type: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": type, **fields}))

    async def until(self, *types: str) -> dict[str, Any]:
        """Take in what comes up to an event of one of these types."""
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await self.connection.recv()
                if isinstance(message, bytes):
                    self.spoken[self.events[-1]["id"]].audio += message
                    continue
                event: dict[str, Any] = json.loads(message)
                self.events.append(event)
                self._record(event)
                if event["type"] in types:
                    return event

    def _record(self, event: dict[str, Any]) -> None:
        if event["type"] == "start":
            assert event["id"] > self.last_id
            self.last_id = event["id"]
            self.spoken[event["id"]] = Spoken(event["text"])
        elif event["type"] == "words":
            self.spoken[event["id"]].words += event["words"]
        elif event["type"] == "done":
            self.spoken[event["id"]].duration = event["duration"]


@asynccontextmanager
async def agent(server: Server) -> AsyncIterator[Agent]:
    async with connect(f"{server.url.replace('http', 'ws', 1)}/tts/ws", max_size=2**20) as connection:
        found = Agent(connection)
        await found.until("ready")
        yield found


def queue_status(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.url}/health/batching").json()
    return found


def pieces(text: str, chance: random.Random) -> list[str]:
    cuts = sorted({0, len(text), *(chance.randrange(len(text)) for _ in range(len(text) // 5))})
    return [text[start:end] for start, end in itertools.pairwise(cuts)]


async def test_sentences_are_spoken_as_tts_speaks_them(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        assert it.events[0] == {
            "type": "ready",
            "voice": "af_heart",
            "format": "pcm",
            "sample_rate": RATE,
            "sample_format": "pcm_s16le",
        }
        await it.send("append", text="Hello the")
        await it.send("append", text="re, world. How")
        assert (await it.until("done"))["id"] == 1, "spoken before the text goes on"
        await it.send("append", text=" are you?")
        await it.send("flush")
        await it.until("flushed")
    assert [(n, spoken.text) for n, spoken in it.spoken.items()] == [(1, "Hello there, world."), (2, "How are you?")]
    for number, spoken in it.spoken.items():
        lead = LEAD if number == 1 else FOLLOWING
        assert spoken.audio == say(tiny_server, spoken.text, format="pcm", lead=lead).content
        assert spoken.duration == pytest.approx(len(spoken.audio) / 2 / RATE, abs=1e-3)
    words = it.spoken[1].words
    assert [word["text"] for word in words] == ["Hello", "there", "world"]
    assert [word["start"] for word in words] == sorted(word["start"] for word in words)


async def test_start_asks_for_phonemes_and_visemes(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("start", timings="phonemes", visemes="azure")
        await it.send("append", text="Hello there.")
        await it.send("flush")
        await it.until("flushed")
        await it.send("start", visemes="tongue")
        assert (await it.until("error"))["field"] == "visemes"
    (event,) = (event for event in it.events if event["type"] == "words")
    assert "".join(phoneme["symbol"] for phoneme in event["phonemes"]) == "həlˈOðˈɛɹ"
    assert {phoneme["word"] for phoneme in event["phonemes"]} == {0, 1}
    assert [each["viseme"] for each in event["visemes"]] == [12, 1, 14, 8, 17, 4, 13, 0]


async def test_start_says_how_to_speak(tiny_server: Server) -> None:
    options = {"voice": "am_adam", "speed": 1.3, "volume": -3, "sample_rate": 16_000, "sample_format": "pcm_f32le"}
    async with agent(tiny_server) as it:
        await it.send("start", **options)
        assert (await it.until("ready")) | {"voice": "am_adam", "sample_rate": 16_000} == it.events[-1]
        await it.send("append", text="Hello there.")
        await it.send("flush")
        await it.until("flushed")
        await it.send("start", voice="bf_emma", format="mp3")
        await it.send("append", text="And good-bye.")
        await it.send("close")
        with pytest.raises(ConnectionClosed) as closed:
            await it.until("never")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    assert_same_audio(it.spoken[1].audio, say(tiny_server, "Hello there.", format="pcm", **options).content)
    assert decode(it.spoken[2].audio, "mp3").any()
    assert it.spoken[2].duration > 0


@pytest.mark.parametrize(
    ("message", "code", "says"),
    [
        ("{", "bad_request", "not JSON"),
        ("[" * 10_000, "bad_request", "not JSON"),
        (b"\x00", "bad_request", "not binary"),
        ("[]", "invalid_input", ""),
        ('{"type": "sing"}', "invalid_input", "'append'"),
        ('{"type": "append"}', "invalid_input", "text: is required"),
        ('{"type": "append", "text": 5}', "invalid_input", "text: Input should be a valid string"),
        ('{"type": "append", "text": "\\ud800"}', "bad_request", "not JSON"),
        ('{"type": "flush", "text": "a"}', "invalid_input", "text: there is no such field"),
        ('{"type": "start", "text": "Hi"}', "invalid_input", "text: "),
        ('{"type": "start", "voice": "nobody"}', "unknown_voice", "nobody"),
        ('{"type": "start", "language": "tlh"}', "unknown_language", "tlh"),
        ('{"type": "start", "speed": 9}', "invalid_input", "speed: Input should be less than"),
        ('{"type": "start", "format": "opus", "sample_rate": 44100}', "invalid_input", "allowed: 8000"),
        ('{"type": "start", "ssml": true}', "invalid_input", "send SSML to POST /tts/stream"),
        ('{"type": "start", "turns": [{"text": "a"}]}', "invalid_input", "turns"),
        (json.dumps({"type": "append", "text": "a" * 20_000}), "text_too_long", "at most 16384"),
    ],
)
async def test_a_bad_message_is_answered_and_the_connection_stays(
    tiny_server: Server, message: str | bytes, code: str, says: str
) -> None:
    async with agent(tiny_server) as it:
        await it.connection.send(message)
        event = await it.until("error")
        assert event["code"] == code
        assert says in event["message"]
        await it.send("append", text="Still here.")
        await it.send("flush")
        await it.until("flushed")
    assert it.spoken[1].duration > 0


async def test_a_voice_in_the_text_speaks_until_the_next_or_a_flush(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("append", text="One. [voice:am_adam] Two. Three. ")
        await it.send("append", text="Four [/voice] and five. Six.")
        await it.send("flush")
        await it.send("append", text="[voice:bf_emma] Seven.")
        await it.send("flush")
        await it.send("append", text="Eight.")
        await it.send("flush")
        for _ in range(3):
            await it.until("flushed")
    voices = {"Two.": "am_adam", "Three.": "am_adam", "Four": "am_adam", "Seven.": "bf_emma"}
    texts = ["One.", "Two.", "Three.", "Four", "and five.", "Six.", "Seven.", "Eight."]
    assert [spoken.text for spoken in it.spoken.values()] == texts
    for spoken in it.spoken.values():
        lead = LEAD if spoken.text in ("One.", "Seven.", "Eight.") else FOLLOWING
        voice = voices.get(spoken.text, "af_heart")
        alone = say(tiny_server, spoken.text, voice=voice, format="pcm", lead=lead).content
        # To the last bit only where they were in the same batches.
        np.testing.assert_allclose(np.frombuffer(spoken.audio, "<i2"), np.frombuffer(alone, "<i2"), atol=20)


async def test_a_sentence_that_fails_costs_only_itself(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("append", text="One. Wait [pause:99s] here. 🙂 Three.")
        await it.send("flush")
        await it.until("flushed")
    assert [event["id"] for event in it.events if event["type"] == "done"] == [1, 3]
    (error,) = (event for event in it.events if event["type"] == "error")
    assert (error["id"], error["code"]) == (2, "invalid_input")


async def test_what_cannot_be_spoken_is_passed_over(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("append", text="***\n\nHello.\n\n---\n\n🙂")
        await it.send("flush")
        await it.until("flushed")
    assert all(event["type"] != "error" for event in it.events)
    assert [spoken.text for spoken in it.spoken.values() if spoken.audio] == ["Hello."]


async def test_only_the_sentence_that_breaks_the_silence_overtakes_others(tiny_server: Server) -> None:
    before = queue_status(tiny_server)["performance"]
    async with agent(tiny_server) as it:
        await it.send("append", text="Hello there. How are you? I am")
        await it.until("done")
        await it.send("append", text=" fine.")
        await it.send("flush")
        await it.until("flushed")
    after = queue_status(tiny_server)["performance"]
    assert after["bypassed"] - before["bypassed"] == 1
    assert after["batched"] - before["batched"] == 2


async def test_cancel_drops_queued_work_at_once(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("append", text="This one is not the last. " * 500)
        await it.until("done")
        await it.send("cancel")
        cancelled = await it.until("cancelled")
        status = queue_status(tiny_server)["queue_status"]
        assert (status["current_size"], status["preparing"]) == (0, 0)
        assert cancelled["ids"] == list(range(cancelled["ids"][0], 500))
        await it.send("append", text="Then this.")
        await it.send("flush")
        next_start = await it.until("start")
        assert next_start["text"] == "Then this."
        await it.until("flushed")
    done = [event["id"] for event in it.events if event["type"] == "done"]
    assert done == [*range(1, cancelled["ids"][0]), next_start["id"]]


async def test_cancel_while_closing_closes(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("append", text="This one is not the last. " * 500)
        await it.send("close")
        await it.until("done")
        await it.send("append", text="Too late.")
        await it.send("cancel")
        await it.until("cancelled")
        with pytest.raises(ConnectionClosed):
            await it.until("done")
    assert any(event["type"] == "error" and "closing" in event["message"] for event in it.events)


async def test_too_much_text_is_refused(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        for _ in range(13):
            await it.send("append", text="a few more words " * 500)
        event = await it.until("error")
        assert event["code"] == "text_too_long"
        assert "MAX_TEXT_LENGTH" in event["message"]
        await it.send("cancel")
        await it.until("cancelled")


async def test_a_client_that_vanishes_frees_everything(tiny_server: Server) -> None:
    left = tiny_server.lines().count("agent left")
    async with agent(tiny_server) as it:
        await it.send("append", text="This one is not the last. " * 500)
        await it.until("done")
        it.connection.transport.abort()
    deadline = time.monotonic() + PATIENCE
    while tiny_server.lines().count("agent left") == left:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    made = queue_status(tiny_server)["performance"]["total_requests"]
    status = queue_status(tiny_server)["queue_status"]
    assert (status["current_size"], status["preparing"]) == (0, 0)
    assert say(tiny_server, "Hello.").status_code == 200
    assert queue_status(tiny_server)["performance"]["total_requests"] <= made + 4, "only what was on the device"
    assert "Traceback" not in tiny_server.lines()


async def test_a_client_that_does_not_read_is_waited_for(tiny_server: Server) -> None:
    async with agent(tiny_server) as it:
        await it.send("append", text=SENTENCES[6].replace(".", " indeed. ") * 150)
        made = -1
        deadline = time.monotonic() + PATIENCE
        while made != (made := queue_status(tiny_server)["performance"]["total_requests"]):
            assert time.monotonic() < deadline
            await asyncio.sleep(1)
        assert say(tiny_server, "Hello there.").status_code == 200
        await it.send("cancel")
        cancelled = await it.until("cancelled")
        assert len(cancelled["ids"]) > 10


async def converse(server: Server, seed: int, lengths: dict[str, int]) -> int:
    """A few turns of random sentences in random pieces; some are cancelled midway. Gives the number spoken whole."""
    chance = random.Random(seed)
    whole = 0
    async with agent(server) as it:
        for _turn in range(3):
            said = [chance.choice(SENTENCES) for _ in range(chance.randint(1, 6))]
            cancels = chance.random() < 0.4
            it.spoken.clear()
            listening = asyncio.create_task(it.until("cancelled" if cancels else "flushed"))
            written = pieces(" ".join(said), chance)
            for piece in written[: chance.randint(1, len(written))] if cancels else written:
                await it.send("append", text=piece)
                await asyncio.sleep(chance.choice((0, 0, 0.01)))
            await it.send("cancel" if cancels else "flush")
            end = await listening
            assert all(event["type"] != "error" for event in it.events), it.events
            done = [spoken for spoken in it.spoken.values() if spoken.duration >= 0]
            assert [spoken.text for spoken in it.spoken.values()] == said[: len(it.spoken)]
            longer = round(2 * RATE * (FOLLOWING - LEAD))  # bytes, of every sentence of a turn but the first
            wanted = [lengths[spoken.text] + longer * (n > 0) for n, spoken in enumerate(done)]
            assert [len(spoken.audio) for spoken in done] == wanted
            if cancels:
                started_not_done = [n for n, spoken in it.spoken.items() if spoken.duration < 0]
                assert set(started_not_done) <= set(end["ids"])
            else:
                assert len(done) == len(said)
            whole += len(done)
    return whole


@pytest.mark.slow
async def test_twenty_agents_at_once(log_file: Path) -> None:
    """Every sentence that is not cancelled is spoken once, whole and in order, whatever the others do."""
    # However slow the machine is, nobody is to be turned away.
    with servers.running(servers.TINY, log_file, QUEUE_TIMEOUT="600") as server:
        options = {"format": "pcm", "optimize_for_latency": True}  # cut as an agent's sentences are
        lengths = {text: len(say(server, text, **options).content) for text in SENTENCES}
        async with asyncio.TaskGroup() as group:
            agents = [group.create_task(converse(server, seed, lengths)) for seed in range(20)]
        assert sum(agent.result() for agent in agents) > 60
        after = queue_status(server)
        if backends.ASKED != "onnx":  # there, each row is a forward pass of its own
            assert after["performance"]["avg_batch_size"] > 1, "agents share batches"
        assert after["queue_status"]["current_size"] == 0
        assert "Traceback" not in server.lines()
