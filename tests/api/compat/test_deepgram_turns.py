"""Messages of `/v2/speak` as Deepgram's SDK 7.16 sends and reads them, against a running server."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from kokoro_server.api.compat.deepgram.turns import MAX_TURNS
from tests.api.compat.test_deepgram import LONG, SENTENCES, TEXT, Agent, agent, assert_spoken, speak
from tests.servers import Server

FLUX = "model=flux-haley-en&encoding=linear16&sample_rate=24000"
PATH = "/v2/speak"
RATE = 24_000


def seconds(audio: bytes) -> float:
    return len(audio) / 2 / RATE


def kinds(it: Agent) -> list[str]:
    return [event["type"] for event in it.events]


async def test_a_turn_is_spoken_between_its_messages(tiny_server: Server) -> None:
    async with agent(tiny_server, FLUX, "/deepgram" + PATH) as it:
        assert it.events[0]["model_name"] == "af_heart"
        assert len(it.events[0]["model_uuids"]) == 1
        for _ in range(2):
            it.audio, it.events = b"", []
            for word in TEXT.split():
                await it.send("Speak", text=f"{word} ")
            await it.send("Flush")
            metadata = await it.until("SpeechMetadata")
            assert kinds(it) == ["SpeechStarted", "Flushed", "SpeechMetadata"]
            assert {event["speech_id"] for event in it.events} == {metadata["speech_id"]}
            assert re.fullmatch("dg_sp_[0-9a-f]{12}", metadata["speech_id"])
            assert metadata["audio_duration_ms"] == pytest.approx(1000 * seconds(it.audio), abs=1)
            assert metadata["input_character_count"] == metadata["billable_character_count"] == len(TEXT) + 1
            assert metadata["controls_applied"]["breaks_applied"] == 0
            assert_spoken(tiny_server, it.audio, SENTENCES)
        await it.send("Close")
        session = await it.until("SessionMetadata")
        assert session["total_input_character_count"] == 2 * (len(TEXT) + 1)
        assert session["total_audio_duration_ms"] == pytest.approx(2000 * seconds(it.audio), abs=2)
        assert await it.closed() == 1000


async def test_close_speaks_the_rest_and_what_cannot_be_said_is_a_turn_too(tiny_server: Server) -> None:
    async with agent(tiny_server, FLUX, PATH) as it:
        await it.send("Flush")
        assert (await it.until("Warning"))["code"] == "NO_ACTIVE_SPEECH"
        await it.send("Speak", text="— 🙂")
        await it.send("Flush")
        assert (await it.until("SpeechMetadata"))["audio_duration_ms"] == 0
        assert "NO_SYNTHESIZABLE_TEXT" in [event.get("code") for event in it.events]
        await it.send("Speak", text="Yes.")
        await it.send("Close")
        assert await it.closed() == 1000
        assert kinds(it)[-4:] == ["SpeechStarted", "Flushed", "SpeechMetadata", "SessionMetadata"]
        assert_spoken(tiny_server, it.audio, ["Yes."])


async def test_an_interrupt_tells_what_was_heard(tiny_server: Server) -> None:
    async with agent(tiny_server, FLUX, PATH) as it:
        await it.send("Interrupt")
        assert (await it.until("Warning"))["code"] == "NO_ACTIVE_SPEECH"
        await it.send("Speak", text=TEXT)
        await it.send("Flush")
        made = (await it.until("SpeechMetadata"))["audio_duration_ms"]
        await it.send("Interrupt", playback_offset={"type": "time_ms", "value": made // 2})
        heard = await it.until("SpeechInterrupted")
        assert heard["audio_played_ms"] == made // 2
        assert heard["text_spoken"] + heard["text_remaining"] == TEXT
        assert heard["text_spoken"]
        assert heard["text_remaining"]
        assert heard["metadata"]["audio_duration_ms"] == made
        await it.send("Speak", text="Yes.")
        await it.send("Flush")
        await it.until("SpeechMetadata")
        await it.send("Interrupt", playback_offset={"type": "time_ms", "value": made // 2})
        assert (await it.until("Warning"))["code"] == "INVALID_INTERRUPT_OFFSET"
        await it.send("Interrupt", playback_offset={"type": "time_ms", "value": made // 2 + 100})
        assert (await it.until("SpeechInterrupted"))["text_spoken"] in ("", "Yes", "Yes.")


async def test_an_interrupt_drops_what_is_unsent(tiny_server: Server) -> None:
    async with agent(tiny_server, FLUX, PATH) as it:
        for _ in range(2):
            await it.send("Speak", text=LONG)
            await it.send("Flush")
        await it.until("SpeechStarted")
        while not it.audio:
            message = await asyncio.wait_for(it.connection.recv(), 60)
            it.audio += message if isinstance(message, bytes) else b""
        await it.send("Interrupt")
        interrupted = await it.until("SpeechInterrupted")
        assert "text_spoken" not in interrupted
        assert interrupted["audio_played_ms"] >= 1000 * seconds(it.audio) - 1
        it.audio, it.events = b"", []
        await it.send("Speak", text="Yes.")
        await it.send("Flush")
        await it.until("SpeechMetadata")
        assert kinds(it) == ["SpeechStarted", "Flushed", "SpeechMetadata"]
        assert_spoken(tiny_server, it.audio, ["Yes."])


async def test_the_speed_is_configured(tiny_server: Server) -> None:
    async with agent(tiny_server, FLUX, PATH) as it:
        await it.send("Configure", speed=9)
        failure = await it.until("ConfigureFailure")
        assert (failure["code"], failure["field"], failure["value"]) == ("SPEED_OUT_OF_RANGE", "speed", 9)
        await it.send("Configure", speed=1.5)
        assert (await it.until("ConfigureSuccess"))["applied"] == {"speed": 1.5}
        await it.send("Speak", text="Hello, world.")
        await it.send("Flush")
        await it.until("SpeechMetadata")
        wanted = {"encoding": "linear16", "container": "none", "model": "af_heart", "speed": 1.5}
        assert it.audio == speak(tiny_server, "Hello, world.", **wanted).content


async def test_wrong_messages_harm_nothing(tiny_server: Server) -> None:
    wrong: list[Any] = ["{", b"\x00", '{"type":"Speak"}', '{"type":"Interrupt","playback_offset":{"value":-1}}']
    async with agent(tiny_server, FLUX, PATH) as it:
        for message in wrong:
            await it.connection.send(message)
            assert (await it.until("Error"))["description"]
        await it.send("Clear")
        assert "Clear" in (await it.until("Warning"))["description"]


@pytest.mark.parametrize("query", ["model=flux-haley-xx", "expressivity=2", "encoding=mp3"])
async def test_a_handshake_is_refused_with_the_reason(tiny_server: Server, query: str) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        async with agent(tiny_server, query, PATH):
            pass
    assert refusal.value.response.status_code == 400
    assert refusal.value.response.headers["dg-error"]


def test_a_text_by_http(tiny_server: Server) -> None:
    answer = speak(tiny_server, path=PATH, model="flux-haley-fr", encoding="linear16", container="wav")
    assert (answer.status_code, answer.headers["dg-model-name"]) == (200, "ff_siwis")
    refused = speak(tiny_server, path=PATH, expressivity=1)
    assert (refused.status_code, "expressivity" in refused.json()["err_msg"]) == (400, True)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('{"type":"Interrupt","playback_offset":{"type":"time_ms","value":%s}}' % ("9" * 400), "INVALID_INPUT"),
        ('{"type":"Interrupt","playback_offset":{"type":"time_ms","value":1e30}}', "INVALID_INPUT"),
        ('{"type":"Configure","speed":NaN}', "BAD_REQUEST"),
        ('{"type":"Configure","speed":1e999}', "INVALID_INPUT"),
    ],
)
async def test_numbers_that_are_none_cost_the_message_alone(tiny_server: Server, message: str, code: str) -> None:
    async with agent(tiny_server, FLUX, PATH) as it:
        await it.send("Speak", text=TEXT)
        await it.send("Flush")
        await it.until("SpeechMetadata")
        await it.connection.send(message)
        assert (await it.until("Error"))["code"] == code
        await it.send("Speak", text=TEXT)
        await it.send("Close")
        await it.until("SpeechMetadata")


async def test_turns_that_wait_are_counted(tiny_server: Server) -> None:
    async with agent(tiny_server, FLUX, PATH) as it:
        await it.send("Speak", text=LONG)
        for _ in range(MAX_TURNS):
            await it.send("Flush")
            await it.send("Speak", text="")
        assert "turns wait to be spoken" in (await it.until("Error"))["description"]
