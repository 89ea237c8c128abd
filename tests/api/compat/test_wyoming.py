"""Wyoming with its own package's client, as Home Assistant uses it, against a running server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient, AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_read_event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from kokoro_server.api.compat.wyoming.voices import best_first, delivery
from kokoro_server.api.voice_lists import voice_answer
from kokoro_server.assets.models import folder
from kokoro_server.errors import UnknownLanguage
from kokoro_server.languages import LANGUAGES
from kokoro_server.voices import GRADES, VoiceBook, VoiceSnapshot
from kokoro_server.voices.of_model import ModelVoices
from tests.assets.test_models import described
from tests.servers import Server, say

PATIENCE = 120.0  # seconds
TEXT = "Good morning. The kitchen light is on, and it is eight degrees outside."
SHORT = "Good morning."  # spoken at once, however fast the machine is
LONG = "This is a long text, and whoever asked for it will not wait for its end. " * 40


@contextlib.asynccontextmanager
async def connected(server: Server) -> AsyncIterator[AsyncClient]:
    async with AsyncClient.from_uri(server.wyoming, read_timeout=PATIENCE) as client:
        yield client


async def send(client: AsyncClient, *messages: Eventable) -> None:
    for message in messages:
        await client.write_event(message.event())


async def events(client: AsyncClient, last: type[Eventable]) -> list[Event]:
    """All up to the first of the type `last`."""
    found: list[Event] = []
    while not found or not last.is_type(found[-1].type):
        event = await client.read_event()
        assert event is not None, [each.type for each in found]
        found.append(event)
    return found


def audio(found: list[Event]) -> bytes:
    """What is between one audio-start and one audio-stop, all of the same form."""
    kinds = [event.type for event in found]
    assert (kinds.count("audio-start"), kinds.count("audio-stop")) == (1, 1)
    start = AudioStart.from_event(found[kinds.index("audio-start")])
    chunks = [AudioChunk.from_event(event) for event in found if AudioChunk.is_type(event.type)]
    assert {(each.rate, each.width, each.channels) for each in (start, *chunks)} == {(24_000, 2, 1)}
    assert set(kinds[kinds.index("audio-start") + 1 : kinds.index("audio-stop")]) <= {"audio-chunk"}
    return b"".join(chunk.audio for chunk in chunks)


async def spoken(server: Server, **fields: Any) -> bytes:
    async with connected(server) as client:
        await send(client, Synthesize(**{"text": TEXT, **fields}))
        return audio(await events(client, AudioStop))


async def raw(server: Server, *parts: bytes) -> list[Event]:
    """What is answered to these bytes until the server closes the connection."""
    host, _, port = server.wyoming.removeprefix("tcp://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(PATIENCE):
        for part in parts:
            writer.write(part)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        found = []
        while event := await async_read_event(reader):
            found.append(event)
    writer.close()
    return found


def get(server: Server, path: str) -> Any:
    return httpx.get(f"{server.url}{path}", timeout=60).json()


def assert_idle(server: Server) -> None:
    """Soon nothing is queued, runs, or has a place."""
    deadline = time.monotonic() + PATIENCE
    while True:
        queue = get(server, "/health/batching")["queue_status"]
        places = get(server, "/health/streaming")["stream_slots"]["used"]
        if not (queue["current_size"] or queue["running_rows"] or places):
            return
        assert time.monotonic() < deadline, (queue, places)
        time.sleep(0.1)


async def test_the_first_audible_sound_is_counted(tiny_server: Server) -> None:
    def counted() -> float:
        lines = httpx.get(f"{tiny_server.url}/metrics", timeout=PATIENCE).text.splitlines()
        name = 'tts_time_to_first_audible_seconds_count{kind="wyoming"} '
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = counted()
    await spoken(tiny_server, text=SHORT)
    assert counted() == before + 1


async def test_describe_tells_of_every_voice(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await send(client, Describe())
        event = await client.read_event()
    assert event is not None
    [program] = Info.from_event(event).tts
    assert (program.installed, program.supports_synthesize_streaming) == (True, True)
    assert program.name
    assert program.attribution.url
    listed = {voice["name"]: voice for voice in get(tiny_server, "/voices")["voices"]}
    assert {voice.name for voice in program.voices} == listed.keys()
    for voice in program.voices:
        assert voice.languages == [listed[voice.name]["language"]]
        assert voice.installed == listed[voice.name]["installed"]
        assert voice.attribution.name
        assert listed[voice.name]["title"] in str(voice.description)


def test_home_assistant_preselects_the_best_voice_of_each_language() -> None:
    """It takes the first voice by description. Adam, who is the worst, would be it by name."""
    voices = VoiceSnapshot(dict.fromkeys(GRADES, Path()), {})
    listed = [voice_answer(voices.info(name), set()) for name in sorted(GRADES)]
    offered = best_first(listed, voices)
    assert {voice.name for voice in offered} == GRADES.keys()
    for language in LANGUAGES:
        ours = [voice for voice in offered if voice.languages == [language.code]]
        by_description = sorted(ours, key=lambda voice: str(voice.description))
        assert [voice.name for voice in by_description] == voices.ranked(language)
        assert by_description[0].name == voices.best(language)
    american = [str(voice.description) for voice in offered if voice.languages == ["en-US"]]
    assert (american[0], american[-1]) == ("01. Heart (female, grade A)", "20. Adam (male, grade F+)")
    assert [voice.description for voice in offered if voice.languages == ["fr-FR"]] == ["1. Siwis (female, grade B-)"]


async def test_a_text_is_spoken_as_over_http(tiny_server: Server) -> None:
    expected = say(tiny_server, SHORT, voice="bf_emma", format="pcm").content
    found = await spoken(tiny_server, text=SHORT, voice=SynthesizeVoice(name="bf_emma"))
    assert np.allclose(np.frombuffer(found, "<i2"), np.frombuffer(expected, "<i2"), rtol=0, atol=3)


async def test_home_assistants_stream(tiny_server: Server) -> None:
    """As it was recorded: the text in chunks, all of it again for servers that do not stream, and the end."""
    text = f"{SHORT} {SHORT}"
    voice = SynthesizeVoice(name="af_bella")
    chunks = [SynthesizeChunk(text=word + " ") for word in text.split(" ")]
    lengths = []
    async with connected(tiny_server) as client:
        for old_servers in ([Synthesize(text=text, voice=voice)], []):
            await send(client, SynthesizeStart(voice=voice), *chunks, *old_servers, SynthesizeStop())
            found = await events(client, SynthesizeStopped)
            assert [event.type for event in found[-2:]] == ["audio-stop", "synthesize-stopped"]
            lengths.append(len(audio(found)))
    assert lengths[0] == lengths[1] > 24_000  # it is not said twice


async def test_the_first_sentence_is_spoken_before_the_last_is_written(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await send(client, SynthesizeStart(), SynthesizeChunk(text="Good morning to you all. And then, "))
        await events(client, AudioChunk)
        await send(client, SynthesizeChunk(text="a second sentence."), SynthesizeStop())
        await events(client, SynthesizeStopped)


async def test_without_a_voice_or_by_language(tiny_server: Server) -> None:
    ways: dict[str, Any] = {
        "none": None,
        "heart": SynthesizeVoice(name="af_heart"),
        "language": SynthesizeVoice(language="en_US"),
        "british": SynthesizeVoice(language="en-GB"),
        "emma": SynthesizeVoice(name="bf_emma"),
    }
    found = {name: await spoken(tiny_server, text=SHORT, voice=voice) for name, voice in ways.items()}
    assert found["none"] == found["heart"] == found["language"] != found["british"] == found["emma"]


async def test_without_a_voice_a_text_is_read_in_its_own_language(tiny_server: Server) -> None:
    text = "La luz de la cocina está encendida."
    expected = say(tiny_server, text, voice="ef_dora", format="pcm").content
    dora = await spoken(tiny_server, text=text, voice=SynthesizeVoice(language="es"))
    assert np.allclose(np.frombuffer(dora, "<i2"), np.frombuffer(expected, "<i2"), rtol=0, atol=3)
    for unnamed in (None, SynthesizeVoice()):
        assert await spoken(tiny_server, text=text, voice=unnamed) == dora
    assert await spoken(tiny_server, text=text, voice=SynthesizeVoice(name="af_heart")) != dora


async def test_a_short_sentence_is_read_in_the_language_of_the_one_before_it(tiny_server: Server) -> None:
    chunks = [SynthesizeChunk(text=f"{word} ") for word in "La luz de la cocina está encendida. Total: 45.".split()]

    async def streamed(voice: SynthesizeVoice | None) -> bytes:
        async with connected(tiny_server) as client:
            await send(client, SynthesizeStart(voice=voice), *chunks, SynthesizeStop())
            return audio(await events(client, SynthesizeStopped))

    assert await streamed(None) == await streamed(SynthesizeVoice(name="ef_dora"))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"voice": SynthesizeVoice(name="nobody")}, "unknown_voice"),
        ({"voice": SynthesizeVoice(language="tlh")}, "unknown_language"),
        ({"voice": SynthesizeVoice(language="it")}, "unknown_language"),  # the tiny model has none
        ({"voice": SynthesizeVoice(name="af_heart", speaker="3")}, "not_supported"),
        ({"text": "<speak>Hi</speak>", "text_format": "ssml"}, "not_supported"),
        ({"text": "[voice:nobody]Hello."}, "unknown_voice"),
        ({"text": "a" * 100_001}, "text_too_long"),
        ({"text": None}, "invalid_input"),
        ({"context": "none"}, "invalid_input"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_is_told_and_the_connection_goes_on(
    tiny_server: Server, fields: dict[str, Any], code: str, streamed: bool
) -> None:
    whole = Synthesize(**{"text": TEXT, **fields})
    how = {name: value for name, value in fields.items() if name != "text"}
    stream = (SynthesizeStart(**how), SynthesizeChunk(text=whole.text), whole, SynthesizeStop())
    async with connected(tiny_server) as client:
        await send(client, *(stream if streamed else [whole]), Synthesize(text="Hello."))
        found = await events(client, AudioStop)
        error = Error.from_event(found[0])
        assert (error.code, bool(error.text)) == (code, True)
        assert audio(found[1:])


async def test_a_client_that_does_not_know_of_errors_does_not_wait_for_ever(tiny_server: Server) -> None:
    """Home Assistant waits for an audio-stop, or for the end of the connection. Half a text must not look whole."""
    nobody = SynthesizeVoice(name="nobody")

    async def failed(*messages: Eventable) -> None:
        async with connected(tiny_server) as client:
            await send(client, *messages)
            assert [event.type for event in await events(client, Error)] == ["error"]
            assert await client.read_event() is None

    await asyncio.gather(
        failed(Synthesize(text=TEXT, voice=nobody)),
        failed(SynthesizeStart(voice=nobody), SynthesizeChunk(text=TEXT)),
        failed(SynthesizeStart(voice=nobody), SynthesizeChunk(text=TEXT), SynthesizeStop()),
    )


async def test_nothing_to_say_is_no_error(tiny_server: Server) -> None:
    moment = bytes(14_400)
    assert await spoken(tiny_server, text="") == moment
    assert await spoken(tiny_server, text="🙂") == moment
    assert await spoken(tiny_server, text="你好", voice=SynthesizeVoice(name="af_heart")) == moment
    async with connected(tiny_server) as client:
        await send(client, SynthesizeStart(), SynthesizeStop())
        assert audio(await events(client, SynthesizeStopped)) == moment


async def test_pings_are_answered_while_it_speaks_and_what_is_unknown_is_ignored(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await send(client, SynthesizeChunk(text="of no stream"), SynthesizeStop(), SynthesizeStopped())
        await client.write_event(Event("audio-chunk", {"rate": 16_000}, payload=b"\0" * 100_000))
        await client.write_event(Event("of-the-future"))
        await send(client, Synthesize(text=LONG), Ping(text="still there?"))
        found = await events(client, Pong)
        assert Pong.from_event(found[-1]).text == "still there?"
        assert not any(AudioStop.is_type(event.type) for event in found)
    assert_idle(tiny_server)


async def test_what_is_asked_for_at_once_is_answered_in_order(tiny_server: Server) -> None:
    async with connected(tiny_server) as client:
        await send(client, *(Synthesize(text="Hello there." * times) for times in (1, 4)))
        short, long = [audio(await events(client, AudioStop)) for _ in range(2)]
    assert 0 < len(short) < len(long)


async def test_data_may_be_in_the_line_and_come_in_bits(tiny_server: Server) -> None:
    line = json.dumps({"type": "ping", "data": {"text": "ä"}}).encode() + b"\n"
    host, _, port = tiny_server.wyoming.removeprefix("tcp://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for byte in line:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.001)
    long = json.dumps({"type": "ping", "data": {"text": "a" * 300_000}, "data_length": 2, "payload_length": 0}).encode()
    writer.write(long + b"\n{}")
    async with asyncio.timeout(PATIENCE):
        answers = [await async_read_event(reader) for _ in range(2)]
    assert [len(Pong.from_event(answer).text or "") for answer in answers if answer] == [1, 300_000]
    writer.close()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",), "not a Wyoming event"),
        ((b"\n",), "not a Wyoming event"),
        ((b'{"typ": "ping"}\n',), "type"),
        ((b"[" * 100_000 + b"\n",), "not a Wyoming event"),
        ((b'{"type": "\xff"}\n',), "not a Wyoming event"),
        ((b'{"type": "ping", "data_length": -1}\n',), "data_length"),
        ((b'{"type": "ping", "data_length": 3}\n[1]',), "not a Wyoming event"),
        ((b'{"type": "' + b"a" * 10_000_000, b'"}\n'), "MAX_TEXT_LENGTH"),
        ((b'{"type": "ping", "data_length": 10000000}\n' + b"a" * 10_000_000,), "MAX_TEXT_LENGTH"),
        ((b'{"type": "ping", "payload_length": 100000000000}\n' + b"a" * 1_000_000,), "MAX_BODY_SIZE"),
    ],
)
async def test_what_is_no_event_is_told_so_and_ends_the_connection(
    tiny_server: Server, sent: tuple[bytes, ...], told: str
) -> None:
    [event] = await raw(tiny_server, *sent)
    assert told in Error.from_event(event).text
    assert len(Error.from_event(event).text) < 500


async def test_clients_that_leave_at_any_moment_take_their_work_along(tiny_server: Server) -> None:
    host, _, port = tiny_server.wyoming.removeprefix("tcp://").rpartition(":")
    request = json.dumps({"type": "synthesize", "data": {"text": LONG}}).encode() + b"\n"
    for end in (0, 1, 20, len(request) - 1, len(request)):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(request[:end])
        await writer.drain()
        writer.close()
    for stop in (False, True):
        async with AsyncTcpClient(host, int(port)) as client:
            await send(client, SynthesizeStart(), SynthesizeChunk(text=LONG))
            if stop:
                await send(client, SynthesizeStop())
            await events(client, AudioChunk)
    assert_idle(tiny_server)


async def test_a_language_that_only_another_model_speaks(tmp_path: Path) -> None:
    model = ModelVoices(folder.read(described(tmp_path)))
    book = VoiceBook.fixed(VoiceSnapshot({"af_heart": tmp_path}, {}, models={"german": model}))
    asked = await delivery(SynthesizeVoice(language="de"), None, book)
    assert (asked.voice, asked.language) == ("german/df_anna", None)
    with pytest.raises(UnknownLanguage):
        await delivery(SynthesizeVoice(language="sv"), None, book)
