"""`POST /tts/captioned`: audio with the time of each word, or subtitles."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from kokoro_server.api.async_render import AsyncRenderer
from kokoro_server.api.disconnect import CancellableStreamingResponse
from kokoro_server.api.routes.stream import STREAMING_HEADERS, as_text, open_renderer, start_synthesis
from kokoro_server.api.routes.tts import (
    ERRORS,
    ChunkedBodyResponse,
    RequestTimeout,
    clip_headers,
    render,
    skipped_header,
    speak,
)
from kokoro_server.api.schemas.speech import Captioned, CaptionedRequest, TimedWord
from kokoro_server.audio.encode import Format
from kokoro_server.audio.render import Rendering
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import for_client
from kokoro_server.synthesis import captions
from kokoro_server.synthesis.captions import Cue
from kokoro_server.synthesis.synthesizer import Clip, Segment, Speech

router = APIRouter(tags=["speech"])

CaptionEvent = dict[str, Any]

NDJSON = "application/x-ndjson"
SSE = "text/event-stream"
MAX_EVENT_AUDIO = 192 * 1024  # bytes, 256 kB in base64: less than a millisecond's work for the event loop
SUBTITLES = {"srt": ("application/x-subrip", captions.srt), "vtt": ("text/vtt", captions.vtt)}
FRAMING: dict[str, Callable[[CaptionEvent], str]] = {
    NDJSON: lambda event: json.dumps(event, ensure_ascii=False) + "\n",
    SSE: lambda event: f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n",
}


@router.post(
    "/tts/captioned",
    response_model=Captioned,
    responses={
        200: {
            "description": "Audio and words; subtitles; or both as they are made",
            "content": {NDJSON: {}, SSE: {}, **{media: {} for media, _ in SUBTITLES.values()}},
        },
        **ERRORS,
    },
)
async def captioned(body: CaptionedRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and tell when each word is said.

    `format` `srt` or `vtt`: the answer is a subtitle file. Otherwise it is JSON with the audio in base64, or, where
    `Accept` is `application/x-ndjson` or `text/event-stream`, events as they are made: `audio` (a stretch of the file
    and its words), then `done`; or `error`, after which the connection breaks off.
    """
    subtitles = SUBTITLES.get(body.format)
    accepted = request.headers.get("accept", "")
    framing = next((kind for kind in FRAMING if kind in accepted), None)
    if framing and not subtitles:
        return await _event_stream(body, request, timeout, framing)
    rendering = body.rendering("wav" if subtitles else _audio_format(body.format))
    clip = await speak(body, request, timeout)
    headers = clip_headers(request, clip)
    if subtitles:
        media_type, write = subtitles
        text = await asyncio.to_thread(lambda: write(subtitle_cues(body.speech(), clip)))
        headers["Content-Disposition"] = f"attachment; filename=tts_output.{body.format}"
        return PlainTextResponse(text, media_type=media_type, headers=headers)
    content = await asyncio.to_thread(_captioned_json, clip, await render(request, clip, rendering), rendering)
    return ChunkedBodyResponse(content, media_type="application/json", headers=headers)


def subtitle_cues(speech: Speech, clip: Clip) -> list[Cue]:
    """The subtitles of a clip of `speech`."""
    if len(clip.script) == 1 and not speech.ssml:
        return captions.cues(clip.words, speech.written)
    return captions.script_cues(clip.words, clip.script)


def _captioned_json(clip: Clip, content: list[bytes], rendering: Rendering) -> list[bytes]:
    captioned_clip = Captioned(
        audio="",
        format=rendering.output.format,
        sample_rate=rendering.output.sample_rate,
        duration=round(clip.seconds, 4),
        voice=clip.voice,
        words=[TimedWord(**asdict(word)) for word in clip.words],
        skipped=clip.skipped,
    )
    return json_with_audio(captioned_clip, content)


def json_with_audio(answer: BaseModel, content: list[bytes]) -> list[bytes]:
    """`answer` as JSON, its first field, `audio`, being the content in base64.

    It comes in parts: as a whole, an hour of it would keep the GIL for seconds.
    """
    before, after = answer.model_dump_json().encode().split(b'""', 1)
    return [before, b'"', *_base64(content), b'"', after]


def _base64(parts: list[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        for start in range(0, len(part), MAX_EVENT_AUDIO):
            data = rest + part[start : start + MAX_EVENT_AUDIO]
            whole = len(data) // 3 * 3
            yield b64encode(data[:whole])
            rest = data[whole:]
    yield b64encode(rest)


def _audio_format(format: str) -> Format:
    assert format not in SUBTITLES
    return format  # type: ignore[return-value]


async def _event_stream(body: CaptionedRequest, request: Request, timeout: float | None, framing: str) -> Response:
    rendering = body.rendering(_audio_format(body.format))
    first, segments = await start_synthesis(request, body, timeout)
    renderer = await open_renderer(request, rendering)
    lines = as_text(request, audio_events(first, segments, renderer), FRAMING[framing], _error_event)
    return CancellableStreamingResponse(lines, framing, STREAMING_HEADERS | skipped_header(first.skipped))


def _error_event(error: Exception) -> CaptionEvent:
    return {"type": "error", "message": for_client(error).message}


async def audio_events(
    first: Segment, others: AsyncGenerator[Segment, None], renderer: AsyncRenderer
) -> AsyncGenerator[CaptionEvent, None]:
    """`audio` events, each with a stretch of the file and the words that begin in it, then `done`."""
    samples = skipped = 0
    async with aclosing(others):
        segment: Segment | None = first
        while segment is not None:
            samples += len(segment.audio)
            skipped += segment.skipped
            words = [asdict(word) for word in segment.words]
            for audio in event_audio(await renderer.write(segment.audio, pcm16=segment.pcm16, last=segment.last)):
                yield {"type": "audio", "audio": audio, "words": words}
                words = []
            segment = await anext(others, None)
    yield {"type": "done", "duration": round(samples / SAMPLE_RATE, 4), "skipped": skipped}


def event_audio(data: bytes, size: int = MAX_EVENT_AUDIO) -> Iterator[str]:
    """`data` in base64, in bits of `size` bytes for one event each; one that is empty, where there is no data."""
    for start in range(0, max(len(data), 1), size):
        yield b64encode(data[start : start + size]).decode()
