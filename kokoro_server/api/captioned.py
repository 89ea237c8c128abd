"""`POST /tts/captioned`: audio with the time of each word, or subtitles."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from kokoro_server.api.disconnect import Streamed, while_connected
from kokoro_server.api.schemas import Captioned, CaptionedRequest, Word
from kokoro_server.api.stream import HEADERS, begin, told
from kokoro_server.api.tts import ERRORS, RequestTimeout, clip_headers, job, parts
from kokoro_server.audio import captions
from kokoro_server.audio.encode import Format
from kokoro_server.audio.render import Renderer, Rendering, render
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.synthesis import Segment

router = APIRouter(tags=["speech"])

Event = dict[str, Any]

NDJSON = "application/x-ndjson"
SSE = "text/event-stream"
SUBTITLES = {"srt": ("application/x-subrip", captions.srt), "vtt": ("text/vtt", captions.vtt)}
FRAMING: dict[str, Callable[[Event], str]] = {
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
        return await _streamed(body, request, timeout, framing)
    rendering = body.rendering("wav" if subtitles else _audio(body.format))
    clip = await while_connected(
        request.receive, parts(request).synthesizer.speak(body.speech(), job(request, timeout))
    )
    headers = clip_headers(request, clip)
    if subtitles:
        media_type, write = subtitles
        cues = await asyncio.to_thread(captions.cues, clip.words, body.speech().written)
        headers["Content-Disposition"] = f"attachment; filename=tts_output.{body.format}"
        return PlainTextResponse(write(cues), media_type=media_type, headers=headers)
    content = await asyncio.to_thread(render, clip.audio, rendering)
    answer = Captioned(
        audio=b64encode(content).decode(),
        format=rendering.output.format,
        sample_rate=rendering.output.sample_rate,
        duration=round(clip.seconds, 4),
        voice=clip.voice,
        words=[Word(**asdict(word)) for word in clip.words],
    )
    return Response(answer.model_dump_json(), media_type="application/json", headers=headers)


def _audio(format: str) -> Format:
    assert format not in SUBTITLES
    return format  # type: ignore[return-value]


async def _streamed(body: CaptionedRequest, request: Request, timeout: float | None, framing: str) -> Response:
    rendering = body.rendering(_audio(body.format))
    first, segments = await begin(request, body, timeout)
    events = _events(first, segments, rendering)
    return Streamed(told(request, events, FRAMING[framing], _failure), framing, HEADERS)


def _failure(error: Exception) -> Event:
    return {"type": "error", "message": str(error)}


async def _events(
    first: Segment, others: AsyncGenerator[Segment, None], rendering: Rendering
) -> AsyncGenerator[Event, None]:
    renderer = await asyncio.to_thread(Renderer, rendering)
    samples = 0
    try:
        async with aclosing(others):
            segment: Segment | None = first
            while segment is not None:
                samples += len(segment.audio)
                yield _event(await asyncio.to_thread(renderer.write, segment.audio), segment)
                segment = await anext(others, None)
        yield {"type": "audio", "audio": b64encode(await asyncio.to_thread(renderer.finish)).decode(), "words": []}
        yield {"type": "done", "duration": round(samples / SAMPLE_RATE, 4)}
    finally:
        await asyncio.to_thread(renderer.close)


def _event(data: bytes, segment: Segment) -> Event:
    return {"type": "audio", "audio": b64encode(data).decode(), "words": [asdict(word) for word in segment.words]}
