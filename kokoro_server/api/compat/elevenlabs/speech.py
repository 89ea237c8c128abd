"""`POST /v1/text-to-speech/{voice_id}`, streamed or whole, with or without the times of characters."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.captioned import event_audio, json_clip_response
from kokoro_server.api.compat.elevenlabs import output_formats, stock_voices
from kokoro_server.api.compat.elevenlabs.alignment import Characters
from kokoro_server.api.compat.elevenlabs.schemas import (
    AudioWithTimestamps,
    CharacterAlignment,
    SpeechBody,
    request_fields,
)
from kokoro_server.api.compat.lenient import LenientRequest
from kokoro_server.api.compat.openai.schemas import VoiceName
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.api.speech import AUDIO, RequestTimeout, Responses, clip_response
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import NDJSON, Events, RenderedSegments, event_stream, stream_response
from kokoro_server.audio.encode import Output
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.clip import Clip

router = APIRouter(prefix="/v1/text-to-speech/{voice_id:path}", tags=["ElevenLabs"])

MAX_LINE_AUDIO = 32 * 1024  # bytes: aiohttp, which pipecat uses, refuses lines above 128 kB
SPOKEN: Responses = {200: {"description": "The audio", "content": AUDIO}}
LINES: Responses = {200: {"description": "An object a line", "content": {NDJSON: {}}}}

OutputFormatName = Annotated[
    str | None,
    Query(
        description="mp3_RATE_KBPS, opus_48000_KBPS, pcm_RATE, wav_RATE, ulaw_8000 or alaw_8000. "
        f"Absent: {output_formats.DEFAULT}."
    ),
]


async def _request(
    voice_id: VoiceName, body: SpeechBody, request: Request, output_format: OutputFormatName = None
) -> TTSRequest:
    request.scope["model"] = body.model_id or "-"  # for the log
    output = output_formats.parse(output_format)
    voice = await stock_voices.hold(voice_id, body.model_id, get_services(request))
    return LenientRequest(text=body.text, **request_fields(voice, body, body.voice_settings, output))


Asked = Annotated[TTSRequest, Depends(_request)]


@router.post("/stream", response_class=StreamingResponse, responses=SPOKEN)
async def convert_stream(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and send the audio as it is made."""
    return await stream_response(asked, request, timeout)


@router.post("/stream/with-timestamps", response_model=AudioWithTimestamps, responses=LINES)
async def stream_with_timestamps(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and send the audio as it is made, one JSON object a line. Times count from the audio's start."""
    events = partial(_events, characters=Characters(asked.speech().written))
    return await event_stream(request, asked, timeout, NDJSON, events, error_line)


@router.post("/with-timestamps", response_model=AudioWithTimestamps)
async def with_timestamps(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and return the time of each character."""
    return await json_clip_response(request, asked, timeout, partial(_timestamps, asked.speech().written))


# The longest path is first, this one last: the name of a voice of another model has a slash.
@router.post("", response_class=Response, responses=SPOKEN)
async def convert(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and answer with the whole clip."""
    return await clip_response(asked, request, timeout)


def _timestamps(text: str, clip: Clip, _output: Output) -> AudioWithTimestamps:
    characters = Characters(text)
    characters.say(clip.words)
    alignment = characters.align_sentence(clip.seconds)
    aligned = CharacterAlignment.model_validate(alignment.seconds()) if alignment else None
    return AudioWithTimestamps(audio_base64="", alignment=aligned, normalized_alignment=aligned)


async def _events(segments: RenderedSegments, characters: Characters) -> Events:
    samples = 0
    async for segment, data in segments:
        samples += len(segment.audio)
        characters.say(segment.words)
        seconds = samples / SAMPLE_RATE
        alignment = characters.align_sentence(seconds) if segment.last else characters.align_words(seconds)
        for audio in event_audio(data, MAX_LINE_AUDIO):
            aligned = alignment.seconds() if alignment else None
            yield {"audio_base64": audio, "alignment": aligned, "normalized_alignment": aligned}
            alignment = None


def error_line(error: KokoroError) -> JsonObject:
    return {"detail": {"status": error.code, "message": error.message}}
