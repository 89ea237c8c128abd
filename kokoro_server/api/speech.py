"""Clips: the parts that speech endpoints share, and the answer with a whole clip."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Header, Request, Response
from starlette.types import Receive, Scope, Send

from kokoro_server.api.clip_files import ClipFile, ClipSpool, within_memory
from kokoro_server.api.disconnect import CancellableStreamingResponse, cancel_on_disconnect
from kokoro_server.api.errors import validated
from kokoro_server.api.schemas.answers import ErrorAnswer
from kokoro_server.api.schemas.speech import BatchRequest, SpeechRequest, TTSRequest
from kokoro_server.api.state import get_services
from kokoro_server.audio.formats import ENCODINGS
from kokoro_server.audio.render import Rendering, SoundStart
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import BadRequest, InvalidInput
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.captions import later
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.clip_memory import Overflow
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.utterance import Segment
from kokoro_server.text.pieces import Cutting

PRIORITIES = {"normal": Priority.NORMAL, "bulk": Priority.BULK}  # by the header X-Priority

AnswerKind = Literal["clip", "stream"]  # a label of metrics
Responses = dict[int | str, JsonObject]  # FastAPI's `responses`, by status

RequestTimeout = Annotated[
    float | None,
    Header(
        alias="X-Request-Timeout",
        description="Seconds this request may wait to be started, if less than the server's own limit.",
        gt=0,
        le=86_400,
        allow_inf_nan=False,
    ),
]


def error_responses(descriptions: Mapping[int, str]) -> Responses:
    return {status: {"model": ErrorAnswer, "description": text} for status, text in descriptions.items()}


def only(responses: Responses, *statuses: int) -> Responses:
    return {status: responses[status] for status in statuses}


ERRORS = error_responses(
    {
        400: "Unknown voice, unknown or absent language, wrong SSML, or a body that is not JSON",
        413: "Text, audio or body too long",
        422: "A field is missing, unknown or out of range; or the text has nothing to say",
        429: "Too busy; Retry-After says when to come back",
        500: "The model failed on this text",
        502: "The G2P service gave no usable answer",
        503: "A part of the server is restarting; Retry-After says when to come back",
        504: "Not started in time, or the device hung",
    }
)
BINARY = {"schema": {"type": "string", "format": "binary"}}
AUDIO: JsonObject = {encoding.media_type: BINARY for encoding in ENCODINGS.values()}


def new_ticket(request: Request, timeout: float | None, priority: Priority = Priority.NORMAL, **options: int) -> Ticket:
    queue = get_services(request).queue
    return queue.ticket(priority=priority, deadline=queue.now() + timeout if timeout else math.inf, **options)


async def clip_response(body: TTSRequest, request: Request, timeout: float | None) -> Response:
    """The whole clip, as `POST /tts` answers."""
    rendering = body.rendering()
    clip, content = await rendered_clip(body, request, timeout)
    headers = {"Content-Disposition": f"attachment; filename=tts_output.{body.format}"} | clip_headers(request, clip)
    if content.file is None:
        return ChunkedBodyResponse(content.parts, media_type=rendering.output.media_type, headers=headers)
    headers["Content-Length"] = str(content.size)
    return CancellableStreamingResponse(content.chunks(), rendering.output.media_type, headers)


async def rendered_clip(body: SpeechRequest, request: Request, timeout: float | None) -> tuple[Clip, ClipFile]:
    """Returns the whole clip and its file. Raises ClientDisconnect if the client leaves first."""
    spool = ClipSpool(request, body.rendering())
    clip = await speak(body, request, timeout, spool)
    content = await cancel_on_disconnect(request.receive, spool.rendered(clip))
    start = spool.start(clip)
    note_start(request, "clip", start)
    return clip_later(clip, start.late), await within_memory(request, content)


def note_start(request: Request, kind: AnswerKind, start: SoundStart) -> None:
    """Leaves for the access log when the audio of the answer will be audible."""
    if start.audible is not None:
        request.scope["audible"] = kind, start.audible


def clip_later(clip: Clip, seconds: float) -> Clip:
    """A copy whose words come later; see `segment_later`."""
    return replace(clip, segments=[segment_later(segment, seconds) for segment in clip.segments]) if seconds else clip


def segment_later(segment: Segment, seconds: float) -> Segment:
    """A copy whose words come later, as they do in a file that begins with silence which the audio does not have."""
    if not seconds:
        return segment
    return replace(
        segment,
        timings=lambda: tuple(later(word, seconds) for word in segment.words),
        sounds=lambda: tuple(later(phoneme, seconds) for phoneme in segment.phonemes),
    )


async def speak(body: SpeechRequest, request: Request, timeout: float | None, overflow: Overflow) -> Clip:
    """Returns the whole clip. Raises ClientDisconnect if the client leaves first."""
    bypass = get_services(request).clip_bypass if body.optimize_for_latency else 0
    ticket = new_ticket(request, timeout, _priority(request), bypass=bypass, urgent=bypass)
    cutting: Cutting = "short_start" if body.optimize_for_latency else "clip"
    speaking = get_services(request).synthesizer.speak(body.speech(), ticket, cutting=cutting, overflow=overflow)
    return await cancel_on_disconnect(request.receive, speaking)


def _priority(request: Request) -> Priority:
    asked = request.headers.get("x-priority", "normal").lower()
    if asked not in PRIORITIES:
        raise InvalidInput(f"X-Priority must be {' or '.join(PRIORITIES)} (got {asked[:20]!r})", field="X-Priority")
    return PRIORITIES[asked]


class ChunkedBodyResponse(Response):
    """A body in chunks, which are sent one by one: joining large ones would block the event loop."""

    def __init__(self, chunks: Sequence[bytes], media_type: str, headers: Mapping[str, str]) -> None:
        length = str(sum(map(len, chunks)))
        super().__init__(media_type=media_type, headers={**headers, "Content-Length": length})
        self._chunks = chunks

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        *first, last = self._chunks
        for part in first:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": last})


def clip_headers(request: Request, clip: Clip) -> dict[str, str]:
    return {
        "X-Audio-Duration": f"{clip.seconds:.3f}",
        "X-Voice-Used": clip.voice,
        "X-Batching-Enabled": batching_enabled(request),
        "X-Queue-Time-Ms": f"{clip.queue_ms:.1f}",
        "X-Inference-Time-Ms": f"{clip.inference_ms:.1f}",
        "X-Batch-Size": str(clip.batch_size),
        "Server-Timing": server_timing(clip.text_ms, clip.queue_ms, clip.inference_ms),
        **omission_headers(clip.skipped, is_silent=clip.is_silent),
    }


def server_timing(text_ms: float, queue_ms: float, inference_ms: float) -> str:
    """How long each step took, as browsers show it. The access log adds the total, and the first audible sound."""
    return f"text;dur={text_ms:.1f}, queue;dur={queue_ms:.1f}, inference;dur={inference_ms:.1f}"


def omission_headers(skipped: int, *, is_silent: bool) -> dict[str, str]:
    """How many characters were left out because the language cannot say them, and whether nothing was left to say."""
    counted = {"X-Skipped-Characters": str(skipped)} if skipped else {}
    return counted | ({"X-Nothing-To-Say": "true"} if is_silent else {})


def batching_enabled(request: Request) -> str:
    return str(get_services(request).queue.options.enabled).lower()


def check_clip_count(request: Request, body: BatchRequest) -> None:
    """Raises BadRequest if there are more clips than MAX_CLIPS_PER_REQUEST allows."""
    limit = get_services(request).settings.max_clips_per_request
    if len(body.requests) > limit:
        raise BadRequest(
            f"requests has {len(body.requests)} clips; at most {limit} are allowed (MAX_CLIPS_PER_REQUEST)",
            field="requests",
        )


def parse_clip(body: object) -> TTSRequest:
    """One of several clips. Raises InvalidInput if a field is wrong."""
    return validated(TTSRequest.model_validate, body)


def parse_line(fields: JsonObject) -> tuple[Speech, Rendering]:
    """A line of a list, with the fields of `POST /tts`. Raises InvalidInput if a field is wrong."""
    request = parse_clip(fields)
    return request.speech(), request.rendering()
