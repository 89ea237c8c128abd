"""`POST /v1/text-to-speech/{voice_id}`, streamed or whole, with or without the times of characters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.async_render import AsyncRenderer
from kokoro_server.api.compat.elevenlabs import output_formats
from kokoro_server.api.compat.elevenlabs.alignment import Alignment, Characters
from kokoro_server.api.compat.elevenlabs.schemas import (
    AudioWithTimestamps,
    CharacterAlignment,
    SpeechBody,
    request_fields,
)
from kokoro_server.api.compat.openai.schemas import VoiceName
from kokoro_server.api.disconnect import CancellableStreamingResponse
from kokoro_server.api.routes import captioned, stream, tts
from kokoro_server.api.routes.captioned import FRAMING, NDJSON, CaptionEvent
from kokoro_server.api.routes.stream import STREAMING_HEADERS, as_text, open_renderer, start_synthesis
from kokoro_server.api.routes.tts import (
    AUDIO,
    ChunkedBodyResponse,
    RequestTimeout,
    clip_headers,
    render,
    skipped_header,
)
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import for_client
from kokoro_server.synthesis.synthesizer import Clip, Segment

router = APIRouter(prefix="/v1/text-to-speech/{voice_id}", tags=["ElevenLabs"])

MAX_LINE_AUDIO = 32 * 1024  # bytes: aiohttp, which pipecat uses, refuses lines above 128 kB
SPOKEN: dict[int | str, dict[str, Any]] = {200: {"description": "The audio", "content": AUDIO}}
LINES: dict[int | str, dict[str, Any]] = {200: {"description": "An object a line", "content": {NDJSON: {}}}}

OutputFormatName = Annotated[
    str, Query(description="mp3_RATE_KBPS, opus_48000_KBPS, pcm_RATE, wav_RATE, ulaw_8000 or alaw_8000.")
]


async def _request(
    voice_id: VoiceName, body: SpeechBody, request: Request, output_format: OutputFormatName = output_formats.DEFAULT
) -> TTSRequest:
    request.scope["model"] = body.model_id or "-"  # for the log
    output = output_formats.parse(output_format)
    voice = await tts.get_services(request).voices.hold(voice_id)
    return TTSRequest(text=body.text, **request_fields(voice, body, body.voice_settings, output))


Asked = Annotated[TTSRequest, Depends(_request)]


@router.post("", response_class=Response, responses=SPOKEN)
async def convert(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and answer with the whole clip."""
    return await tts.tts(asked, request, timeout)


@router.post("/stream", response_class=StreamingResponse, responses=SPOKEN)
async def convert_stream(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and send the audio as it is made."""
    return await stream.stream(asked, request, timeout)


@router.post("/with-timestamps", response_model=AudioWithTimestamps)
async def with_timestamps(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and tell when each character is said."""
    clip = await tts.speak(asked, request, timeout)
    content = await render(request, clip, asked.rendering(asked.format))
    chunks = await asyncio.to_thread(_json, clip, content, asked.speech().written)
    return ChunkedBodyResponse(chunks, media_type="application/json", headers=clip_headers(request, clip))


@router.post("/stream/with-timestamps", response_model=AudioWithTimestamps, responses=LINES)
async def stream_with_timestamps(asked: Asked, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and send the audio as it is made, an object a line. Times are from the beginning of the audio."""
    rendering = asked.rendering(asked.format)
    first, segments = await start_synthesis(request, asked, timeout)
    events = _events(first, segments, await open_renderer(request, rendering), Characters(asked.speech().written))
    lines = as_text(request, events, FRAMING[NDJSON], _error)
    return CancellableStreamingResponse(lines, NDJSON, STREAMING_HEADERS | skipped_header(first.skipped))


def _json(clip: Clip, content: list[bytes], text: str) -> list[bytes]:
    characters = Characters(text)
    characters.say(clip.words)
    alignment = characters.tell_sentence(clip.seconds)
    told = CharacterAlignment.model_validate(alignment.seconds()) if alignment else None
    return captioned.json_with_audio(
        AudioWithTimestamps(audio_base64="", alignment=told, normalized_alignment=told), content
    )


async def _events(
    first: Segment, others: AsyncGenerator[Segment, None], renderer: AsyncRenderer, characters: Characters
) -> AsyncGenerator[CaptionEvent, None]:
    samples = 0
    async with aclosing(others):
        segment: Segment | None = first
        while segment is not None:
            samples += len(segment.audio)
            characters.say(segment.words)
            seconds = samples / SAMPLE_RATE
            alignment = characters.tell_sentence(seconds) if segment.last else characters.tell(seconds)
            data = await renderer.write(segment.audio, pcm16=segment.pcm16, last=segment.last)
            for audio in captioned.event_audio(data, MAX_LINE_AUDIO):
                yield _event(audio, alignment)
                alignment = None
            segment = await anext(others, None)


def _event(audio: str, alignment: Alignment | None) -> CaptionEvent:
    told = alignment.seconds() if alignment else None
    return {"audio_base64": audio, "alignment": told, "normalized_alignment": told}


def _error(error: Exception) -> CaptionEvent:
    known = for_client(error)
    return {"detail": {"status": known.code, "message": known.message}}
