"""Random requests in the protocols of other services."""

from __future__ import annotations

import base64
import json
from typing import Any

from wyoming.client import AsyncClient
from wyoming.event import Event
from wyoming.tts import Synthesize, SynthesizeVoice

from tests.soak.answers import OK, Answer, BrokenOff, Client, ErrorEvent, ask, on_socket, seconds_of, socket
from tests.soak.requests import PHONEMES, VOICES, Chance, text

RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}


async def elevenlabs(client: Client, chance: Chance) -> Answer:
    name, format = chance.choice((("mp3_44100_128", "mp3"), ("pcm_24000", "pcm"), ("opus_48000_64", "opus")))
    form = chance.choice(("", "/stream", "/with-timestamps"))
    path = f"/elevenlabs/v1/text-to-speech/{chance.choice(VOICES)}{form}"
    answer = await ask(client, path, {"text": text(chance), "model_id": "any"}, params={"output_format": name})
    if form == "/with-timestamps":
        return answer.sounds(lambda found: seconds_of(base64.b64decode(found.json()["audio_base64"]), format))
    return answer.sound(format)


@on_socket
async def elevenlabs_socket(client: Client, chance: Chance) -> Answer:
    path = f"/elevenlabs/v1/text-to-speech/{chance.choice(VOICES)}/stream-input?output_format=pcm_24000"
    sound = b""
    async with socket(client, path) as connection:
        for said in (" ", f"{text(chance)} ", f"{text(chance)} ", ""):
            await connection.send(json.dumps({"text": said}))
        is_final = False
        async for message in connection:
            event = json.loads(message)
            if "error" in event:
                raise ErrorEvent(event["error"])
            sound += base64.b64decode(event.get("audio") or "")
            is_final = is_final or bool(event.get("isFinal"))
    return _whole(sound, is_final)


async def deepgram(client: Client, chance: Chance) -> Answer:
    encoding, format = chance.choice((("linear16", "wav"), ("mp3", "mp3"), ("flac", "flac")))
    query = {"model": chance.choice((*VOICES, "aura-2-thalia-en")), "encoding": encoding}
    query |= {"container": "wav" if format == "wav" else "none"}
    return (await ask(client, "/deepgram/v1/speak", {"text": text(chance)}, params=query)).sound(format)


@on_socket
async def deepgram_socket(client: Client, chance: Chance) -> Answer:
    sound, flushed = b"", False
    path = f"/v1/speak?model={chance.choice(VOICES)}&encoding=linear16&sample_rate=24000"
    async with socket(client, path) as connection:
        for message in ({"type": "Speak", "text": text(chance)}, {"type": "Flush"}):
            await connection.send(json.dumps(message))
        async for message in connection:
            if isinstance(message, bytes):
                sound += message
                continue
            event = json.loads(message)
            if event["type"] == "Error":
                raise ErrorEvent(event["code"])
            if event["type"] == "Flushed":
                flushed = True
                await connection.send(json.dumps({"type": "Close"}))
    return _whole(sound, flushed)


async def cartesia(client: Client, chance: Chance) -> Answer:
    form = chance.choice(({"container": "wav"}, {}))
    body = {"model_id": "sonic-3", "transcript": text(chance), "voice": {"mode": "id", "id": chance.choice(VOICES)}}
    answer = await ask(client, "/cartesia/tts/bytes", body | {"output_format": RAW | form})
    return answer.sound("wav" if form else "pcm")


@on_socket
async def cartesia_socket(client: Client, chance: Chance) -> Answer:
    """Two contexts on one connection."""
    heard = {"one": b"", "two": b""}
    done = set[str]()
    async with socket(client, "/cartesia/tts/websocket") as connection:
        for context in heard:
            voice = {"mode": "id", "id": chance.choice(VOICES)}
            body = {"context_id": context, "model_id": "any", "transcript": text(chance), "voice": voice}
            await connection.send(json.dumps(body | {"output_format": RAW}))
        while done != heard.keys():
            event = json.loads(await connection.recv())
            if event["type"] == "error":
                raise ErrorEvent(event["error_code"])
            if event["type"] == "chunk":
                heard[event["context_id"]] += base64.b64decode(event["data"])
            elif event["type"] == "done":
                done.add(event["context_id"])
    return Answer(OK, seconds=sum(seconds_of(sound, "pcm") for sound in heard.values()))


async def kokoro_fastapi(client: Client, chance: Chance) -> Answer:
    said: dict[str, Any] = {"input": text(chance), "voice": "af_bella(2)+af_sky(1)", "response_format": "wav"}
    turns = [{"text": text(chance), "voice": voice} for voice in chance.sample(VOICES, 2)]
    asked = chance.choice(("captioned_speech", "dialogue", "phonemize", "generate_from_phonemes"))
    if asked == "captioned_speech":
        answer = await ask(client, "/dev/captioned_speech", said | {"stream": False})
        return answer.sounds(lambda found: seconds_of(base64.b64decode(found.json()["audio"]), "wav"))
    if asked == "dialogue":
        return (await ask(client, "/dev/dialogue", {"turns": turns, "response_format": "flac"})).sound("flac")
    if asked == "phonemize":
        return await ask(client, "/dev/phonemize", {"text": text(chance), "language": "a"})
    body = {"phonemes": PHONEMES, "voice": chance.choice(VOICES)}
    return (await ask(client, "/dev/generate_from_phonemes", body)).sound("wav")


@on_socket
async def wyoming(client: Client, chance: Chance) -> Answer:
    sound = b""
    async with AsyncClient.from_uri(client.wyoming) as connection:
        voice = SynthesizeVoice(name=chance.choice(VOICES))
        await connection.write_event(Synthesize(text(chance), voice=voice).event())
        event: Event | None = None
        while event is None or event.type != "audio-stop":
            event = await connection.read_event()
            if event is None:
                raise BrokenOff("the Wyoming connection ended")
            if event.type == "error":
                raise ErrorEvent(event.data["code"])
            sound += event.payload or b""
    return Answer(OK, seconds=seconds_of(sound, "pcm"))


def _whole(sound: bytes, is_whole: bool) -> Answer:
    """A socket that ends by itself must have said before that all was sent."""
    if not is_whole:
        raise BrokenOff("the socket ended before its last message")
    return Answer(OK, seconds=seconds_of(sound, "pcm"))
