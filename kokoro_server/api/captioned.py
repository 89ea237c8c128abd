"""Audio with the time of each word, as JSON, as events or as subtitles."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import asdict

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from kokoro_server.api.schemas.speech import Captioned, CaptionedRequest, TimedWord
from kokoro_server.api.speech import ChunkedBodyResponse, clip_headers, render, speak
from kokoro_server.api.streaming import FRAMING, Events, RenderedSegments, event_stream
from kokoro_server.audio.formats import Format
from kokoro_server.audio.render import Rendering
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis import captions
from kokoro_server.synthesis.captions import Cue
from kokoro_server.synthesis.synthesizer import Clip, Speech

MAX_EVENT_AUDIO = 192 * 1024  # bytes, 256 kB in base64: less than a millisecond's work for the event loop
SUBTITLES = {"srt": ("application/x-subrip", captions.srt), "vtt": ("text/vtt", captions.vtt)}


async def captioned_response(body: CaptionedRequest, request: Request, timeout: float | None) -> Response:
    """Audio and words, as `POST /tts/captioned` answers."""
    subtitles = SUBTITLES.get(body.format)
    accepted = request.headers.get("accept", "")
    framing = next((kind for kind in FRAMING if kind in accepted), None)
    rendering = body.rendering("wav" if subtitles else _audio_format(body.format))
    if framing and not subtitles:
        return await event_stream(request, body, rendering, timeout, framing, audio_events, _error_event)
    clip = await speak(body, request, timeout)
    headers = clip_headers(request, clip)
    if subtitles:
        media_type, write = subtitles
        text = await asyncio.to_thread(lambda: write(subtitle_cues(body.speech(), clip)))
        headers["Content-Disposition"] = f"attachment; filename=tts_output.{body.format}"
        return PlainTextResponse(text, media_type=media_type, headers=headers)
    content = await asyncio.to_thread(_captioned_json, clip, await render(request, clip, rendering), rendering)
    return ChunkedBodyResponse(content, media_type="application/json", headers=headers)


def _audio_format(format: str) -> Format:
    assert format not in SUBTITLES
    return format  # type: ignore[return-value]


def subtitle_cues(speech: Speech, clip: Clip) -> list[Cue]:
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
    """Returns `answer` as JSON whose first field, `audio`, is the content in base64.

    It comes in parts: made at once, an hour of audio would hold the GIL for seconds.
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


async def audio_events(segments: RenderedSegments) -> Events:
    """Yields `audio` events, each with the next bytes of the file and the words that begin in them, then `done`."""
    samples = skipped = 0
    async with aclosing(segments):
        async for segment, data in segments:
            samples += len(segment.audio)
            skipped += segment.skipped
            words = [asdict(word) for word in segment.words]
            for audio in event_audio(data):
                yield {"type": "audio", "audio": audio, "words": words}
                words = []
    yield {"type": "done", "duration": round(samples / SAMPLE_RATE, 4), "skipped": skipped}


def event_audio(data: bytes, size: int = MAX_EVENT_AUDIO) -> Iterator[str]:
    """Yields `data` in base64, `size` bytes for each event. Empty data is one empty string."""
    for start in range(0, max(len(data), 1), size):
        yield b64encode(data[start : start + size]).decode()


def _error_event(error: KokoroError) -> JsonObject:
    return {"type": "error", "message": error.message}
