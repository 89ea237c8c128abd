"""Streams: audio that is sent while it is synthesized, as a file or as events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from kokoro_server.api.async_render import AsyncRenderer
from kokoro_server.api.disconnect import CancellableStreamingResponse, cancel_on_disconnect
from kokoro_server.api.middleware.idle_limit import ClientStalled
from kokoro_server.api.middleware.stream_slots import StreamStats
from kokoro_server.api.schemas.speech import SpeechRequest, TTSRequest
from kokoro_server.api.speech import (
    batching_enabled,
    new_ticket,
    note_start,
    omission_headers,
    segment_later,
    server_timing,
)
from kokoro_server.api.state import app_state, get_services
from kokoro_server.audio.render import Rendering, render_fast
from kokoro_server.errors import KokoroError, for_client
from kokoro_server.observability import tracing
from kokoro_server.observability.logs import LoggedBefore, outage, request_id
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.utterance import Segment

log = logging.getLogger(__name__)

STREAMING_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache"}  # so that proxies do not buffer
PIECES_AHEAD = 4  # synthesized before the client has read the earlier ones: a slow reader keeps no more in memory

NDJSON = "application/x-ndjson"
SSE = "text/event-stream"
FRAMING: dict[str, Callable[[JsonObject], str]] = {
    NDJSON: lambda event: json.dumps(event, ensure_ascii=False) + "\n",
    SSE: lambda event: f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n",
}

Events = AsyncGenerator[JsonObject, None]
RenderedSegments = AsyncGenerator[tuple[Segment, bytes], None]


class StreamAborted(LoggedBefore):
    """Raised out of a stream that has started: the connection closes without the final chunk, so the client notices."""


async def stream_response(body: TTSRequest, request: Request, timeout: float | None) -> Response:
    """The audio as it is made, as `POST /tts/stream` answers."""
    rendering = body.rendering()
    services = get_services(request)
    voice = await services.synthesizer.voice(body.speech())
    first, segments = await start_synthesis(request, body, timeout, detached=False)
    note_start(request, "stream", rendering.start(first.sound, streamed=True))
    headers = {
        **STREAMING_HEADERS,
        "Content-Disposition": f"attachment; filename=tts_output.{body.format}",
        "X-Stream-ID": request_id.get(),
        "X-Streaming-Mode": f"bypass-first-{services.bypass}-chunks",
        "X-Bypass-Chunks": str(services.bypass),
        "X-Voice-Used": voice.name,
        "X-Batching-Enabled": batching_enabled(request),
        **_first_timing(first),
        **omission_headers(first.skipped, is_silent=first.stands_in),
    }
    stats = app_state(request).streams
    content: bytes | None = None
    if first.last:
        with tracing.step("encode"):
            content = render_fast(first.audio, rendering, pcm16=first.pcm16, streamed=True)
    if content is not None:
        return _CompleteStreamResponse(content, rendering.output.media_type, headers, stats)
    renderer = await open_renderer(request, rendering)
    chunks = _audio(stats, _rendered(first.detached(), segments, renderer, 0.0))
    return CancellableStreamingResponse(chunks, rendering.output.media_type, headers)


def _first_timing(first: Segment) -> dict[str, str]:
    """How long the steps before the first speech took; nothing if the stream starts with silence."""
    made = first.outcome
    return {"Server-Timing": server_timing(first.text_ms, made.queue_ms, made.inference_ms)} if made else {}


class _CompleteStreamResponse(Response):
    """A stream whose audio is complete when it starts: chunked like other streams, but sent at once, with less work."""

    def __init__(self, content: bytes, media_type: str, headers: Mapping[str, str], stats: StreamStats) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with _track_stream(self._stats):
            await super().__call__(scope, receive, send)


async def event_stream(
    request: Request,
    body: SpeechRequest,
    timeout: float | None,
    media_type: str,
    events: Callable[[RenderedSegments], Events],
    failure: Callable[[KokoroError], JsonObject],
) -> Response:
    """Speech as events, framed as `media_type` says. After a failure, the last event is `failure(error)`."""
    rendering = body.rendering()
    first, segments = await start_synthesis(request, body, timeout)
    start = rendering.start(first.sound, streamed=True)
    note_start(request, "stream", start)
    renderer = await open_renderer(request, rendering)
    rendered = _rendered(first, segments, renderer, start.late)
    request.scope["on_end"].push_async_callback(rendered.aclose)
    lines = _lines(app_state(request).streams, events(rendered), FRAMING[media_type], failure)
    headers = STREAMING_HEADERS | omission_headers(first.skipped, is_silent=first.stands_in)
    return CancellableStreamingResponse(lines, media_type, headers)


async def start_synthesis(
    request: Request, body: SpeechRequest, timeout: float | None, *, detached: bool = True
) -> tuple[Segment, AsyncGenerator[Segment, None]]:
    """Returns the first segment and a generator of the later ones. A failure here can still become an error response.

    `detached` is passed to `Synthesizer.segments`. The end of the request abandons segments that are not made yet.
    """
    take_place(request)
    services = get_services(request)
    ticket = new_ticket(request, timeout, bypass=services.bypass, urgent=services.urgent, ahead=PIECES_AHEAD)
    segments = services.synthesizer.segments(body.speech(), ticket, detached=detached)
    request.scope["on_end"].push_async_callback(segments.aclose)
    return await cancel_on_disconnect(request.receive, anext(segments)), segments


def take_place(request: Request) -> None:
    """Takes one of the MAX_STREAMS places until the end of the request. Raises TooBusy if all are taken."""
    request.scope["on_end"].callback(app_state(request).places.take())


async def open_renderer(request: Request, rendering: Rendering) -> AsyncRenderer:
    """Returns a renderer that is closed at the request's end."""
    opening = app_state(request).renderers.open(rendering)
    renderer = await (opening if rendering.plain else cancel_on_disconnect(request.receive, opening))
    request.scope["on_end"].push_async_callback(renderer.close)
    return renderer


async def _rendered(
    first: Segment, later: AsyncGenerator[Segment, None], renderer: AsyncRenderer, late: float
) -> RenderedSegments:
    """Yields each segment with the bytes of the file that are ready with it. Words come `late` seconds later there."""
    async with aclosing(later):
        segment: Segment | None = first
        while segment is not None:
            data = await renderer.write(segment.audio, pcm16=segment.pcm16, last=segment.last)
            yield segment_later(segment, late), data
            segment = await anext(later, None)


async def _audio(stats: StreamStats, segments: RenderedSegments) -> AsyncGenerator[bytes, None]:
    with _track_stream(stats):
        async with aclosing(segments):
            async for _, data in segments:
                if data:
                    yield data


async def _lines(
    stats: StreamStats, events: Events, write: Callable[[JsonObject], str], failure: Callable[[KokoroError], JsonObject]
) -> AsyncGenerator[str, None]:
    with _track_stream(stats):
        try:
            async with aclosing(events):
                async for event in events:
                    yield write(event)
        except Exception as error:
            yield write(failure(for_client(error)))
            raise


@contextmanager
def _track_stream(stats: StreamStats) -> Iterator[None]:
    """Counts a stream that has started by the way it ends. A failure becomes StreamAborted."""
    stats.active += 1
    try:
        yield
    except (GeneratorExit, asyncio.CancelledError, ClientStalled):
        stats.abandoned += 1
        raise
    except Exception as error:
        stats.failed += 1
        bug = None if isinstance(error, KokoroError) else error
        log.error("stream broken off stream_id=%s error=%r", request_id.get(), error, exc_info=bug, extra=outage(error))
        raise StreamAborted from error
    else:
        stats.completed += 1
    finally:
        stats.active -= 1
