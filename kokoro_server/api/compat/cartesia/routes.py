"""`POST /tts/bytes` and `/tts/sse`: a transcript by HTTP."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.captioned import event_audio
from kokoro_server.api.compat.cartesia import events
from kokoro_server.api.compat.cartesia.events import WrittenWords
from kokoro_server.api.compat.cartesia.schemas import Generation
from kokoro_server.api.speech import AUDIO, RequestTimeout, Responses, clip_response
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import SSE, Events, RenderedSegments, event_stream, stream_response

router = APIRouter(tags=["Cartesia"])

ERRORS: Responses = {
    "4XX": {
        "description": 'A field is wrong (400), too busy (429): `{"error_code", "title", "message", "request_id"}`'
    },
    "5XX": {"description": "As for POST /tts"},
}


@router.post(
    "/tts/bytes",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The audio, sent while it is made; wav, when it is complete", "content": AUDIO},
        **ERRORS,
    },
)
async def speech_bytes(body: Generation, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a transcript, as Cartesia's `tts.generate` does."""
    request.scope["model"] = body.model_id  # for the log
    asked = await body.to_tts_request(get_services(request))
    # A wav is usually saved as a file, whose header needs its length.
    answer = clip_response if asked.format == "wav" else stream_response
    return await answer(asked, request, timeout)


@router.post(
    "/tts/sse",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Events: chunk, timestamps of words or phonemes, done", "content": {SSE: {}}},
        **ERRORS,
    },
)
async def speech_events(body: Generation, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a transcript, as Cartesia's `tts.generate_sse` does: events with samples in base64, and with
    `add_timestamps` the times of words, with `add_phoneme_timestamps` those of phonemes.
    """
    request.scope["model"] = body.model_id
    body.require_raw()
    asked = await body.to_tts_request(get_services(request))
    error = partial(events.error, body.context_id)
    return await event_stream(request, asked, timeout, SSE, partial(_events, body=body), error)


async def _events(segments: RenderedSegments, body: Generation) -> Events:
    words = WrittenWords(body.transcript)
    async for segment, data in segments:
        if body.add_timestamps and segment.words:
            yield events.timestamps(body.context_id, words.timed(segment.words, 0.0))
        if body.add_phoneme_timestamps and segment.phonemes:
            yield events.phoneme_timestamps(body.context_id, segment.phonemes)
        if data:
            for audio in event_audio(data):
                yield events.chunk(body.context_id, audio)
    yield events.done(body.context_id)
