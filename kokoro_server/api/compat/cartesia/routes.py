"""`POST /tts/bytes` and `/tts/sse`: a transcript by HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.compat.cartesia import events
from kokoro_server.api.compat.cartesia.events import CartesiaEvent, WrittenWords
from kokoro_server.api.compat.cartesia.schemas import Generation
from kokoro_server.api.disconnect import CancellableStreamingResponse
from kokoro_server.api.routes import captioned, stream, tts
from kokoro_server.api.routes.captioned import FRAMING, SSE
from kokoro_server.api.routes.stream import STREAMING_HEADERS, as_text, open_renderer, start_synthesis
from kokoro_server.api.routes.tts import AUDIO, RequestTimeout, get_services, skipped_header
from kokoro_server.errors import for_client
from kokoro_server.synthesis.captions import Timing

router = APIRouter(tags=["Cartesia"])

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": 'A field is wrong (400), too busy (429): `{"error_code", "title", "message", "request_id"}`'
    },
    "5XX": {"description": "As for POST /tts"},
}


@router.post(
    "/tts/bytes",
    response_class=StreamingResponse,
    responses={200: {"description": "The audio, sent while it is made; of wav, the whole", "content": AUDIO}, **ERRORS},
)
async def speech_bytes(body: Generation, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a transcript, as Cartesia's `tts.generate` does."""
    request.scope["model"] = body.model_id  # for the log
    asked = await body.to_tts_request(get_services(request).voices)
    answer = tts.tts if asked.format == "wav" else stream.stream  # what is saved as a file has its length in its header
    return await answer(asked, request, timeout)


@router.post(
    "/tts/sse",
    response_class=StreamingResponse,
    responses={200: {"description": "Events: chunk, timestamps, done or error", "content": {SSE: {}}}, **ERRORS},
)
async def speech_events(body: Generation, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a transcript, as Cartesia's `tts.generate_sse` does: events with samples in base64, and with the times of
    words where these are asked for.
    """
    request.scope["model"] = body.model_id
    body.require_raw()
    asked = await body.to_tts_request(get_services(request).voices)
    rendering = asked.rendering(asked.format)
    first, segments = await start_synthesis(request, asked, timeout)
    audio = captioned.audio_events(first, segments, await open_renderer(request, rendering))
    lines = as_text(request, _events(body, audio), FRAMING[SSE], lambda error: _error(body, error))
    return CancellableStreamingResponse(lines, SSE, STREAMING_HEADERS | skipped_header(first.skipped))


async def _events(body: Generation, audio: AsyncGenerator[CartesiaEvent, None]) -> AsyncGenerator[CartesiaEvent, None]:
    words = WrittenWords(body.transcript)
    async with aclosing(audio):
        async for event in audio:
            if event["type"] != "audio":
                continue
            if body.add_timestamps and event["words"]:
                timings = [Timing(**word) for word in event["words"]]
                yield events.timestamps(body.context_id, words.timed(timings, 0.0))
            if event["audio"]:
                yield events.chunk(body.context_id, event["audio"])
    yield events.done(body.context_id)


def _error(body: Generation, error: Exception) -> CartesiaEvent:
    return events.error(body.context_id, for_client(error))
