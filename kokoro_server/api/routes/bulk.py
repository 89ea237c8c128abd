"""`POST /tts/bulk`: many clips in one answer, each sent as soon as it is made."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.clip_files import ClipFile, ClipSpool, within_memory
from kokoro_server.api.disconnect import CancellableStreamingResponse, cancel_on_disconnect
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.schemas.speech import BatchRequest, TTSRequest
from kokoro_server.api.speech import (
    BINARY,
    ERRORS,
    RequestTimeout,
    check_clip_count,
    clip_later,
    new_ticket,
    parse_clip,
)
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import STREAMING_HEADERS, take_place
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.speech_queue import TICKET_BATCHES
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import KokoroError, TooBusy, for_client
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.synthesizer import Synthesizer

log = logging.getLogger(__name__)
router = APIRouter(tags=["speech"], route_class=FastPathRoute)

MEDIA_TYPE = "application/x-kokoro-clips"
MANY_SEGMENTS = 20  # of a clip, some minutes: its words are then written in a thread
ROW_CHARACTERS = 200  # of a text that are one row at least
MAX_JOINED = 1024 * 1024  # bytes of a clip that are sent as one part: joining more would block the event loop
NO_AUDIO = ClipFile(0)


@dataclass(frozen=True, slots=True)
class Frame:
    line: bytes  # of JSON, before the audio
    audio: ClipFile = NO_AUDIO
    error: KokoroError | None = None


@router.post(
    "/tts/bulk",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "For each clip a line of JSON, then `bytes` bytes of audio",
            "content": {MEDIA_TYPE: BINARY},
        },
        **ERRORS,
    },
)
async def bulk(body: BatchRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak many texts, after all other requests, and send each clip as soon as it is made, in any order.

    Each clip has a line of JSON: its `index` among the requests, from 0, its `duration` in seconds, `voice`, `words` as
    in POST /tts/captioned, `skipped` characters, and `bytes`, the length of the audio after the line break. A clip that
    fails costs only itself: its line has `bytes` 0 and `error` with `code`, `message`, `field`, the `status` that it
    would have had alone, and `retry_after` in seconds or null. `optimize_for_latency` changes nothing. The next two
    batches are made ahead of what has been read, no more.
    """
    check_clip_count(request, body)
    take_place(request)
    services = get_services(request)
    await services.voices.refresh()
    # The voices as they are now: a slow reader may be at it for an hour.
    synthesizer = services.synthesizer.with_voices(services.voices.held())
    frames = _frames(request, synthesizer, body.requests, new_ticket(request, timeout, Priority.BULK))
    request.scope["on_end"].push_async_callback(frames.aclose)
    frame = await cancel_on_disconnect(request.receive, anext(frames))
    if isinstance(frame.error, TooBusy):
        raise frame.error  # nothing is made yet: the whole request may be repeated
    return CancellableStreamingResponse(_content(frame, frames), MEDIA_TYPE, STREAMING_HEADERS)


async def _content(first: Frame, later: AsyncGenerator[Frame, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(later):
        frame: Frame | None = first
        while frame is not None:
            if frame.audio.file is None and frame.audio.size <= MAX_JOINED:
                yield b"".join((frame.line, *frame.audio.parts))
            else:
                yield frame.line
                async with aclosing(frame.audio.chunks()) as chunks:
                    async for chunk in chunks:
                        yield chunk
                await frame.audio.close()
            frame = await anext(later, None)


async def _frames(
    request: Request, synthesizer: Synthesizer, bodies: list[Any], ticket: Ticket
) -> AsyncGenerator[Frame, None]:
    """Yields a frame for each clip, in the order in which they are made. Few are made before the caller takes them."""
    most = TICKET_BATCHES * get_services(request).queue.max_rows
    room = asyncio.Semaphore(most)  # for rows of clips that are being made, or are made and not yet taken
    made = asyncio.Queue[tuple[Frame, int, ExitStack]]()
    turn = asyncio.Lock()

    async def make(index: int, parsed: TTSRequest | KokoroError, rows: int) -> None:
        sent = ExitStack()
        request.scope["on_end"].callback(sent.close)  # its client may leave first
        made.put_nowait((await _frame(request, synthesizer, index, parsed, ticket, turn, sent), rows, sent))

    async def start() -> None:
        for index, body in enumerate(bodies):
            parsed, rows = _parsed(body)
            rows = min(most // 2, rows)  # beside a long clip there is room for another
            for _ in range(rows):
                await room.acquire()
            tasks.append(asyncio.create_task(make(index, parsed, rows)))
            await asyncio.sleep(0)  # reading all texts in one go would block the event loop

    tasks: list[asyncio.Task[None]] = []
    tasks.append(asyncio.create_task(start()))
    try:
        for _ in bodies:
            frame, rows, sent = await made.get()
            yield frame
            del frame  # its audio must not be held while the next clip is made
            sent.close()
            for _ in range(rows):
                room.release()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _parsed(body: Any) -> tuple[TTSRequest | KokoroError, int]:
    """A clip, or why it is wrong; and its rows, roughly. A wrong one has none, but its frame waits as others do."""
    try:
        parsed = parse_clip(body)
        return parsed, 1 + len(parsed.speech().written) // ROW_CHARACTERS
    except KokoroError as error:
        return error, 1


async def _frame(
    request: Request,
    synthesizer: Synthesizer,
    index: int,
    parsed: TTSRequest | KokoroError,
    ticket: Ticket,
    turn: asyncio.Lock,
    sent: ExitStack,
) -> Frame:
    try:
        if isinstance(parsed, KokoroError):
            raise parsed
        rendering = parsed.rendering()
        spool = ClipSpool(request, rendering)
        clip = await synthesizer.speak(parsed.speech(), ticket, overflow=spool)
        # A batch yields many clips at once. Those not encoded in a thread take turns, with other tasks in between.
        async with turn if rendering.plain else nullcontext():
            audio = await within_memory(request, await spool.rendered(clip), sent)
            frame = await _clip_frame(index, clip_later(clip, spool.start(clip).late), audio)
            await asyncio.sleep(0)
            return frame
    except KokoroError as error:
        if error.status >= 500:
            log.error("clip failed index=%d code=%s message=%s", index, error.code, error.message)
        return _error_frame(index, error)
    except Exception as error:  # a fault in one clip must not cost the rest
        log.exception("clip failed index=%d", index)
        return _error_frame(index, for_client(error))


async def _clip_frame(index: int, clip: Clip, audio: ClipFile) -> Frame:
    if len(clip.segments) < MANY_SEGMENTS:
        return Frame(_clip_line(index, clip, audio), audio)
    return Frame(await asyncio.to_thread(_clip_line, index, clip, audio), audio)


def _clip_line(index: int, clip: Clip, audio: ClipFile) -> bytes:
    facts = {
        "index": index,
        "bytes": audio.size,
        "duration": round(clip.seconds, 4),
        "voice": clip.voice,
        "skipped": clip.skipped,
        "words": [_word(word) for word in clip.words],
    }
    return json.dumps(facts).encode() + b"\n"


def _word(word: Timing) -> JsonObject:
    """Several times faster than `dataclasses.asdict`."""
    return {
        "text": word.text,
        "start": word.start,
        "end": word.end,
        "char_start": word.char_start,
        "char_end": word.char_end,
        "phrase": word.phrase,
    }


def _error_frame(index: int, error: KokoroError) -> Frame:
    known = for_client(error)
    wait = None if known.retry_after is None else max(1, math.ceil(known.retry_after))
    facts = {"code": known.code, "message": known.message, "field": known.field, "status": known.status}
    line = {"index": index, "bytes": 0, "error": facts | {"retry_after": wait}}
    return Frame(json.dumps(line).encode() + b"\n", error=error)
