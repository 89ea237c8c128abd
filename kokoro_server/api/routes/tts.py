"""`/tts`, `/tts/stream` and `/tts/captioned`: one text; and `GET /health/streaming`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.captioned import SUBTITLES, captioned_response
from kokoro_server.api.schemas.answers import Captioned
from kokoro_server.api.schemas.speech import CaptionedRequest, TTSRequest
from kokoro_server.api.simple_requests import FORM, PLAIN, SimpleRoute, query_request
from kokoro_server.api.speech import AUDIO, ERRORS, RequestTimeout, Responses, clip_response
from kokoro_server.api.state import app_state
from kokoro_server.api.streaming import FRAMING, stream_response
from kokoro_server.runtime.json import JsonObject
from kokoro_server.text.pace import Pace

router = APIRouter(tags=["speech"], route_class=SimpleRoute)


CLIP: Responses = {200: {"description": "The clip", "content": AUDIO}, **ERRORS}
STREAM: Responses = {200: {"description": "One audio file, sent while it is made", "content": AUDIO}, **ERRORS}
TTS_SCHEMA = {"schema": {"$ref": "#/components/schemas/TTSRequest"}}
SIMPLE_BODIES: JsonObject = {"requestBody": {"content": {PLAIN: {"schema": {"type": "string"}}, FORM: TTS_SCHEMA}}}
QUERY: JsonObject = {
    "parameters": [
        {"name": name, "in": "query", "required": name == "text", "schema": {"type": "string"}}
        for name in ("text", "voice", "language", "speed", "format")
    ]
}


@router.post("/tts", response_class=Response, responses=CLIP, openapi_extra=SIMPLE_BODIES)
async def tts(body: TTSRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and answer with the whole clip. With the header `X-Priority: bulk`, other requests go first.

    The body may also be the bare text, as `text/plain`, with other fields in the query; or an HTML form.
    """
    return await clip_response(body, request, timeout)


@router.get("/tts", response_class=Response, responses=CLIP, openapi_extra=QUERY)
async def tts_of_url(request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak the text of a URL, for players: the fields of `POST /tts` are in the query."""
    return await clip_response(query_request(request), request, timeout)


@router.post(
    "/tts/stream",
    response_class=StreamingResponse,
    responses=STREAM,
    openapi_extra=SIMPLE_BODIES,
)
async def stream(body: TTSRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and send the audio as it is made.

    An error before the first byte is an ordinary error answer. An error after it breaks the connection off: a stream
    that ends as HTTP says it should is complete.
    """
    return await stream_response(body, request, timeout)


@router.get("/tts/stream", response_class=StreamingResponse, responses=STREAM, openapi_extra=QUERY)
async def stream_of_url(request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak the text of a URL, for players, and send the audio as it is made. The query is that of `GET /tts`."""
    return await stream_response(query_request(request), request, timeout)


@router.head("/tts", include_in_schema=False)
@router.head("/tts/stream", include_in_schema=False)
async def check_of_url(request: Request) -> Response:
    """Players ask what a URL leads to before they play it. Nothing is spoken for that."""
    return Response(media_type=query_request(request).rendering().output.media_type, headers={"Accept-Ranges": "none"})


@router.post(
    "/tts/captioned",
    response_model=Captioned,
    responses={
        200: {
            "description": "Audio and words; subtitles; or both as they are made",
            "content": {media: {} for media in (*FRAMING, *(media for media, _ in SUBTITLES.values()))},
        },
        **ERRORS,
    },
)
async def captioned(body: CaptionedRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and return the time of each word.

    With `format` `srt` or `vtt`, the answer is a subtitle file. Otherwise it is JSON with the audio in base64. If
    `Accept` is `application/x-ndjson` or `text/event-stream`, the answer is events as they are made: `audio` (the next
    bytes of the file and their words), then `done`; or `error`, after which the connection breaks off.
    """
    return await captioned_response(body, request, timeout)


@router.get("/health/streaming", tags=["health"])
async def streaming(request: Request) -> JsonObject:
    """How streams are served, and how many have completed, failed or been abandoned.

    `stream_slots` counts the streams and WebSockets that are open, of at most MAX_STREAMS. `pace` is null unless the
    engine measures its speed: `real_time_factor` is the level by which streams are cut, the time that one second of
    audio takes, rounded up. It is the best that this start or an earlier one has measured on this machine. The first
    chunk has about `first_chunk_tokens` phonemes, which take `first_chunk_seconds`, if a phrase ends there.
    """
    state = app_state(request)
    services = state.services
    await state.siblings.refresh()
    return {
        "bypass_chunks_config": services.bypass,
        "batching_enabled": services.queue.options.enabled,
        "streaming_mode": f"bypass-first-{services.bypass}-chunks",
        "batch_queue_stats": _with_flat_counts(dict(await services.queue.state())),
        "streams": _sums([vars(state.streams), *state.siblings.streams()]),
        "stream_slots": {"used": state.places.taken, "limit": state.places.limit},
        "pace": _pace(services.pace),
    }


def _with_flat_counts(state: JsonObject) -> JsonObject:
    """Adds the counts where the first version had them, which did not nest them."""
    queue, performance = state["queue_status"], state["performance"]
    flat = {name: performance[name] for name in ("total_batches", "total_requests", "avg_batch_size")}
    return state | flat | {"current_queue_size": queue["current_size"], "worker_running": queue["worker_running"]}


def _sums(processes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(streams.get(name, 0) for streams in processes) for name in processes[0]}


def _pace(pace: Pace | None) -> JsonObject | None:
    """The numbers that decide how long a stream's pieces are; None if the engine does not measure its speed."""
    if pace is None:
        return None
    start = pace.start()
    return {
        "real_time_factor": pace.real_time_factor,
        "keeps_up_with_playback": start.keeps_up,
        "first_chunk_tokens": start.max_phonemes,
        "first_chunk_seconds": round(pace.synthesis_seconds(start.max_phonemes), 2),
    }
