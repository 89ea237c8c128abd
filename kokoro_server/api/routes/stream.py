"""`POST /tts/stream`: audio that is sent while it is synthesized."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from kokoro_server.api.async_render import AsyncRenderer, Renderers
from kokoro_server.api.disconnect import CancellableStreamingResponse, cancel_on_disconnect
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.middleware.idle_limit import ClientStalled
from kokoro_server.api.middleware.stream_slots import StreamPlaces, StreamStats, take_place
from kokoro_server.api.routes.tts import (
    AUDIO,
    ERRORS,
    RequestTimeout,
    batching_enabled,
    get_services,
    new_ticket,
    server_timing,
    skipped_header,
)
from kokoro_server.api.schemas.speech import SpeechRequest, TTSRequest
from kokoro_server.audio.render import Rendering, render_fast
from kokoro_server.observability import tracing
from kokoro_server.observability.logs import request_id
from kokoro_server.synthesis.synthesizer import Segment
from kokoro_server.text.pace import Pace

log = logging.getLogger(__name__)
router = APIRouter(tags=["speech"], route_class=FastPathRoute)

T = TypeVar("T")
STREAMING_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache"}  # so that proxies do not buffer
PIECES_AHEAD = 4  # synthesized before the client has read the earlier ones: a slow reader keeps no more in memory


class StreamAborted(Exception):
    """Raised out of a stream that has started: the connection closes without the final chunk, so the client notices."""


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
    services = get_services(request)
    voice = await services.synthesizer.voice(body.speech())
    first, segments = await start_synthesis(request, body, timeout, detached=False)
    headers = {
        **STREAMING_HEADERS,
        "Content-Disposition": f"attachment; filename=tts_output.{body.format}",
        "X-Stream-ID": request_id.get(),
        "X-Streaming-Mode": f"bypass-first-{services.bypass}-chunks",
        "X-Bypass-Chunks": str(services.bypass),
        "X-Voice-Used": voice.name,
        "X-Batching-Enabled": batching_enabled(request),
        **first_timing(first),
        **skipped_header(first.skipped),
    }
    content: bytes | None = None
    if first.last:
        with tracing.step("encode"):
            content = render_fast(first.audio, rendering, pcm16=first.pcm16, streamed=True)
    if content is not None:
        return _CompleteStreamResponse(content, rendering.output.media_type, headers, request.app.state.streams)
    renderer = await open_renderer(request, rendering)
    chunks = _encode(_tracked(request, first.detached(), segments), renderer)
    return CancellableStreamingResponse(chunks, rendering.output.media_type, headers)


def first_timing(first: Segment) -> dict[str, str]:
    """Where the time until the first audio went, if that is speech."""
    made = first.outcome
    return {"Server-Timing": server_timing(first.text_ms, made.queue_ms, made.inference_ms)} if made else {}


class _CompleteStreamResponse(Response):
    """A stream whose audio is complete when it starts: chunked like other streams, but sent at once, with less work."""

    def __init__(self, content: bytes, media_type: str, headers: Mapping[str, str], stats: StreamStats) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with track_stream(self._stats):
            await super().__call__(scope, receive, send)


async def start_synthesis(
    request: Request, body: SpeechRequest, timeout: float | None, *, detached: bool = True
) -> tuple[Segment, AsyncGenerator[Segment, None]]:
    """The first segment, and a generator of the others. A failure here can still become an error response.

    `detached` is passed to `Synthesizer.segments`. What is not made of the others is abandoned at the request's end.
    """
    take_place(request)
    services = get_services(request)
    job = new_ticket(request, timeout, bypass=services.bypass, urgent=services.urgent, ahead=PIECES_AHEAD)
    segments = services.synthesizer.segments(body.speech(), job, detached=detached)
    request.scope["on_end"].push_async_callback(segments.aclose)

    async def first() -> Segment:
        return await anext(segments)

    return await cancel_on_disconnect(request.receive, first()), segments


async def open_renderer(request: Request, rendering: Rendering) -> AsyncRenderer:
    """A renderer that is closed at the request's end."""
    renderers: Renderers = request.app.state.renderers
    opening = renderers.open(rendering)
    renderer = await (opening if rendering.plain else cancel_on_disconnect(request.receive, opening))
    request.scope["on_end"].push_async_callback(renderer.close)
    return renderer


async def _tracked(
    request: Request, first: Segment, others: AsyncGenerator[Segment, None]
) -> AsyncGenerator[Segment, None]:
    with track_stream(request.app.state.streams):
        async with aclosing(others):
            yield first
            async for segment in others:
                yield segment


@contextmanager
def track_stream(stats: StreamStats) -> Iterator[None]:
    """Count a stream that has started by the way it ends. A failure becomes StreamAborted."""
    stats.active += 1
    try:
        yield
    except (GeneratorExit, asyncio.CancelledError, ClientStalled):
        stats.abandoned += 1
        raise
    except Exception as error:
        stats.failed += 1
        log.error("stream broken off stream_id=%s error=%r", request_id.get(), error)
        raise StreamAborted from error
    else:
        stats.completed += 1
    finally:
        stats.active -= 1


async def as_text(
    request: Request, events: AsyncGenerator[T, None], write: Callable[[T], str], failure: Callable[[Exception], T]
) -> AsyncGenerator[str, None]:
    """The events, each turned into text by `write`. A failure is sent as a last event, then the stream is aborted."""
    with track_stream(request.app.state.streams):
        try:
            async with aclosing(events):
                async for event in events:
                    yield write(event)
        except Exception as error:
            yield write(failure(error))
            raise


async def _encode(segments: AsyncGenerator[Segment, None], renderer: AsyncRenderer) -> AsyncGenerator[bytes, None]:
    async with aclosing(segments):
        async for segment in segments:
            if data := await renderer.write(segment.audio, pcm16=segment.pcm16, last=segment.last):
                yield data


@router.get("/health/streaming", tags=["health"])
async def streaming(request: Request) -> dict[str, Any]:
    """How streams are served, and how many have completed, failed or been abandoned."""
    services = get_services(request)
    stats: StreamStats = request.app.state.streams
    places: StreamPlaces = request.app.state.places
    await request.app.state.siblings.refresh()
    return {
        "bypass_chunks_config": services.bypass,
        "batching_enabled": services.queue.options.enabled,
        "streaming_mode": f"bypass-first-{services.bypass}-chunks",
        "batch_queue_stats": _with_flat_counts(dict(await services.queue.state())),
        "streams": _sums([vars(stats), *request.app.state.siblings.streams()]),
        "places": {"taken": places.taken, "limit": places.limit},
        "pace": _pace(services.pace),
    }


def _with_flat_counts(state: dict[str, Any]) -> dict[str, Any]:
    """The counts also where the first version had them, which did not nest them."""
    queue, performance = state["queue_status"], state["performance"]
    flat = {name: performance[name] for name in ("total_batches", "total_requests", "avg_batch_size")}
    return state | flat | {"current_queue_size": queue["current_size"], "worker_running": queue["worker_running"]}


def _sums(processes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(streams.get(name, 0) for streams in processes) for name in processes[0]}


def _pace(pace: Pace | None) -> dict[str, Any] | None:
    """What decides the length of a stream's pieces, if the engine has measured its speed."""
    if pace is None:
        return None
    start = pace.start()
    return {
        "real_time_factor": pace.real_time_factor,
        "keeps_up": start.keeps_up,
        "first_piece_phonemes": start.max_phonemes,
        "first_piece_seconds": round(pace.synthesis_seconds(start.max_phonemes), 2),
    }
