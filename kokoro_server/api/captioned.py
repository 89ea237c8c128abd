"""Audio with the time of each word, as JSON, as events or as subtitles."""

from __future__ import annotations

import asyncio
import math
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import partial

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from kokoro_server.api.clip_files import ClipFile
from kokoro_server.api.disconnect import CancellableStreamingResponse
from kokoro_server.api.schemas.answers import Captioned, TimedWord
from kokoro_server.api.schemas.speech import CaptionedRequest, SpeechRequest, TimingFields
from kokoro_server.api.speech import ChunkedBodyResponse, clip_headers, rendered_clip, speak
from kokoro_server.api.streaming import FRAMING, Events, RenderedSegments, event_stream
from kokoro_server.audio.encode import Output
from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis import captions
from kokoro_server.synthesis.captions import Cue
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.speech import Speech

MAX_EVENT_AUDIO = 192 * 1024  # bytes, 256 kB in base64: less than a millisecond's work for the event loop
SUBTITLES = {"srt": ("application/x-subrip", captions.srt), "vtt": ("text/vtt", captions.vtt)}


async def captioned_response(body: CaptionedRequest, request: Request, timeout: float | None) -> Response:
    """Audio and words, as `POST /tts/captioned` answers."""
    subtitles = SUBTITLES.get(body.format)
    accepted = request.headers.get("accept", "")
    framing = next((kind for kind in FRAMING if kind in accepted), None)
    if framing and not subtitles:
        return await event_stream(request, body, timeout, framing, partial(audio_events, asked=body), _error_event)
    if not subtitles:
        return await json_clip_response(request, body, timeout, partial(_captioned, asked=body))
    body.rendering()  # its options are checked even though no audio is sent
    clip = await speak(body, request, timeout, _NoAudio())
    media_type, write = subtitles
    text = await asyncio.to_thread(lambda: write(subtitle_cues(body.speech(), clip)))
    headers = {"Content-Disposition": f"attachment; filename=tts_output.{body.format}"}
    return PlainTextResponse(text, media_type=media_type, headers=clip_headers(request, clip) | headers)


async def json_clip_response(
    request: Request, body: SpeechRequest, timeout: float | None, answer: Callable[[Clip, Output], BaseModel]
) -> Response:
    """The whole clip as JSON. The first field of the answer is empty, and becomes the audio in base64."""
    clip, content = await rendered_clip(body, request, timeout)
    around = await asyncio.to_thread(lambda: _json_around_audio(answer(clip, body.rendering().output)))
    headers = clip_headers(request, clip)
    if content.file is None:
        chunks = await asyncio.to_thread(lambda: [around[0], *_base64(content.parts), around[1]])
        return ChunkedBodyResponse(chunks, media_type="application/json", headers=headers)
    headers["Content-Length"] = str(sum(map(len, around)) + 4 * math.ceil(content.size / 3))
    return CancellableStreamingResponse(_json_chunks(around, content), "application/json", headers)


def subtitle_cues(speech: Speech, clip: Clip) -> list[Cue]:
    """The last one ends with the audio, however short that is."""
    is_plain = len(clip.script) == 1 and not speech.ssml
    cues = captions.cues(clip.words, speech.written) if is_plain else captions.script_cues(clip.words, clip.script)
    end = round(clip.seconds, 3)
    return [*cues[:-1], *(replace(last, end=max(min(last.end, end), last.start + 0.001)) for last in cues[-1:])]


def _captioned(clip: Clip, output: Output, asked: TimingFields) -> Captioned:
    sound_times: JsonObject = {**asked.sound_times(clip)}
    return Captioned(
        audio="",
        format=output.format,
        sample_rate=output.sample_rate,
        duration=round(clip.seconds, 4),
        voice=clip.voice,
        words=[TimedWord(**asdict(word)) for word in clip.words],
        skipped=clip.skipped,
        **sound_times,
    )


class _NoAudio:
    """An `Overflow` for a clip of which only the words are wanted."""

    in_memory = False

    async def write(self, sound: Sound) -> None:
        pass


def _json_around_audio(answer: BaseModel) -> tuple[bytes, bytes]:
    before, after = answer.model_dump_json(exclude_unset=True).encode().split(b'""', 1)
    return before + b'"', b'"' + after


async def _json_chunks(around: tuple[bytes, bytes], content: ClipFile) -> AsyncGenerator[bytes, None]:
    before, after = around
    yield before
    async with aclosing(content.chunks()) as chunks:
        async for chunk in chunks:  # as long as each can be in base64 without a rest
            yield b64encode(chunk)
    yield after


def _base64(parts: Sequence[bytes]) -> Iterator[bytes]:
    """In parts: made at once, a long clip would hold the GIL."""
    rest = b""
    for part in parts:
        for start in range(0, len(part), MAX_EVENT_AUDIO):
            data = rest + part[start : start + MAX_EVENT_AUDIO]
            whole = len(data) // 3 * 3
            yield b64encode(data[:whole])
            rest = data[whole:]
    yield b64encode(rest)


async def audio_events(segments: RenderedSegments, asked: TimingFields | None = None) -> Events:
    """Yields `audio` events, each with the next bytes of the file and the words that begin in them, then `done`."""
    asked = asked or TimingFields()
    samples = skipped = 0
    async for segment, data in segments:
        samples += len(segment.audio)
        skipped += segment.skipped
        times = {"words": [asdict(word) for word in segment.words], **asked.sound_times(segment)}
        for audio in event_audio(data):
            yield {"type": "audio", "audio": audio, **times}
            times = {name: [] for name in times}
    yield {"type": "done", "duration": round(samples / SAMPLE_RATE, 4), "skipped": skipped}


def event_audio(data: bytes, size: int = MAX_EVENT_AUDIO) -> Iterator[str]:
    """Yields `data` in base64, `size` bytes for each event. Empty data is one empty string."""
    for start in range(0, max(len(data), 1), size):
        yield b64encode(data[start : start + size]).decode()


def _error_event(error: KokoroError) -> JsonObject:
    return {"type": "error", "message": error.message}
