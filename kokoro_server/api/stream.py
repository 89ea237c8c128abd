"""`POST /tts/stream`: audio while it is made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from kokoro_server.api.context import request_id
from kokoro_server.api.disconnect import Streamed, while_connected
from kokoro_server.api.quick import QuickRoute
from kokoro_server.api.rendering import AsyncRenderer
from kokoro_server.api.schemas import SpeechRequest, TTSRequest
from kokoro_server.api.tts import AUDIO, ERRORS, RequestTimeout, batching_enabled, job, parts
from kokoro_server.audio.render import Rendering, render_quickly
from kokoro_server.synthesis import Segment
from kokoro_server.text.pace import Pace

log = logging.getLogger(__name__)
router = APIRouter(tags=["speech"], route_class=QuickRoute)

T = TypeVar("T")
HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache"}  # for proxies: pass it on as it comes
AHEAD = 4  # pieces that are made before the client has read those before: a slow reader keeps no more in memory


class BrokenOff(Exception):
    """Raised out of a stream that has begun: the connection is closed without its end, so that the client knows."""


class StreamCount:
    """How many streams there are and how they ended; `app.state.streams`."""

    def __init__(self) -> None:
        self.active = 0
        self.completed = 0
        self.failed = 0
        self.abandoned = 0


@router.post(
    "/tts/stream",
    response_class=StreamingResponse,
    responses={200: {"description": "One audio file, sent while it is made", "content": AUDIO}, **ERRORS},
)
async def stream(body: TTSRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and send the audio as it is made.

    An error before the first byte is an ordinary error answer. One after it breaks the connection off: a stream that
    ends as HTTP says it should is whole.
    """
    rendering = body.rendering(body.format)
    first, segments = await begin(request, body, timeout, kept=False)
    running = parts(request)
    headers = {
        **HEADERS,
        "X-Stream-ID": request_id.get(),
        "X-Streaming-Mode": f"bypass-first-{running.bypass}-chunks",
        "X-Bypass-Chunks": str(running.bypass),
        "X-Voice-Used": running.model.voices.canonical(body.voice),
        "X-Batching-Enabled": batching_enabled(request),
    }
    content = render_quickly(first.audio, rendering, pcm16=first.pcm16, streamed=True) if first.last else None
    if content is not None:
        await segments.aclose()
        return _AtOnce(content, rendering.output.media_type, headers, request.app.state.streams)
    sent = _encoded(_counted(request, first.kept(), segments), rendering)
    return Streamed(sent, rendering.output.media_type, headers)


class _AtOnce(Response):
    """A stream of which all is there when it begins: sent as streams are, without the effort."""

    def __init__(self, content: bytes, media_type: str, headers: Mapping[str, str], count: StreamCount) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with counting(self._count):
            await super().__call__(scope, receive, send)


async def begin(
    request: Request, body: SpeechRequest, timeout: float | None, *, kept: bool = True
) -> tuple[Segment, AsyncGenerator[Segment, None]]:
    """The first segment, and the others to come. What fails here can still be answered with an error.

    `kept` is for `Synthesizer.segments`.
    """
    running = parts(request)
    its = job(request, timeout, bypass=running.bypass, urgent=running.urgent, ahead=AHEAD)
    segments = running.synthesizer.segments(body.speech(), its, kept=kept)

    async def first() -> Segment:
        return await anext(segments)

    return await while_connected(request.receive, first()), segments


async def _counted(
    request: Request, first: Segment, others: AsyncGenerator[Segment, None]
) -> AsyncGenerator[Segment, None]:
    with counting(request.app.state.streams):
        async with aclosing(others):
            yield first
            async for segment in others:
                yield segment


@contextmanager
def counting(count: StreamCount) -> Iterator[None]:
    """Take note of how a stream that has begun ends, and turn a failure into a break."""
    count.active += 1
    try:
        yield
    except (GeneratorExit, asyncio.CancelledError):
        count.abandoned += 1
        raise
    except Exception as error:
        count.failed += 1
        log.error("stream broken off stream_id=%s error=%r", request_id.get(), error)
        raise BrokenOff from error
    else:
        count.completed += 1
    finally:
        count.active -= 1


async def told(
    request: Request, events: AsyncGenerator[T, None], write: Callable[[T], str], failure: Callable[[Exception], T]
) -> AsyncGenerator[str, None]:
    """`events` as text. One that fails is told as a last event before the connection breaks off."""
    with counting(request.app.state.streams):
        try:
            async with aclosing(events):
                async for event in events:
                    yield write(event)
        except Exception as error:
            yield write(failure(error))
            raise


async def _encoded(segments: AsyncGenerator[Segment, None], rendering: Rendering) -> AsyncGenerator[bytes, None]:
    renderer = await AsyncRenderer.open(rendering)
    try:
        async with aclosing(segments):
            async for segment in segments:
                if data := await renderer.write(segment.audio, last=segment.last):
                    yield data
    finally:
        await renderer.close()


@router.get("/health/streaming", tags=["health"])
async def streaming(request: Request) -> dict[str, Any]:
    """How streams are served and how they have fared."""
    running = parts(request)
    count: StreamCount = request.app.state.streams
    return {
        "bypass_chunks_config": running.settings.bypass_chunks,
        "batching_enabled": running.queue.options.enabled,
        "streaming_mode": f"bypass-first-{running.bypass}-chunks",
        "batch_queue_stats": running.queue.snapshot(),
        "streams": vars(count),
        "pace": _pace(running.pace),
    }


def _pace(pace: Pace | None) -> dict[str, Any] | None:
    """What the length of a stream's pieces goes by, where an engine has measured its speed."""
    if pace is None:
        return None
    start = pace.start()
    return {
        "real_time_factor": pace.real_time_factor,
        "keeps_up": start.keeps_up,
        "first_piece_phonemes": start.max_phonemes,
        "first_piece_seconds": round(pace.synthesis_seconds(start.max_phonemes), 2),
    }
