"""`POST /tts`, and what all speech endpoints share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from starlette.types import Receive, Scope, Send

from kokoro_server.api.async_render import Renderers
from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.schemas.speech import ErrorAnswer, SpeechRequest, TTSRequest
from kokoro_server.audio.encode import ENCODINGS
from kokoro_server.audio.render import Rendering
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import InvalidInput
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.synthesizer import Clip
from kokoro_server.text.pieces import Cutting

router = APIRouter(tags=["speech"], route_class=FastPathRoute)

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {
        "model": ErrorAnswer,
        "description": "Unknown voice, unknown or absent language, SSML that is wrong, or no JSON",
    },
    413: {"model": ErrorAnswer, "description": "Text or body too long"},
    422: {"model": ErrorAnswer, "description": "A field is missing, unknown or out of range; or nothing to say"},
    429: {"model": ErrorAnswer, "description": "Too busy; Retry-After says when to come back"},
    500: {"model": ErrorAnswer, "description": "The model failed on this text"},
    502: {"model": ErrorAnswer, "description": "The G2P service gave no usable answer"},
    503: {"model": ErrorAnswer, "description": "A part is restarting; Retry-After says when to come back"},
    504: {"model": ErrorAnswer, "description": "Not started in time"},
}
AUDIO: dict[str, Any] = {
    encoding.media_type: {"schema": {"type": "string", "format": "binary"}} for encoding in ENCODINGS.values()
}

PRIORITIES = {"normal": Priority.NORMAL, "bulk": Priority.BULK}  # by the header X-Priority

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


def get_services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def new_ticket(request: Request, timeout: float | None, priority: Priority = Priority.NORMAL, **options: int) -> Ticket:
    queue = get_services(request).queue
    return queue.ticket(priority=priority, deadline=queue.now() + timeout if timeout else math.inf, **options)


@router.post("/tts", response_class=Response, responses={200: {"description": "The clip", "content": AUDIO}, **ERRORS})
async def tts(body: TTSRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and answer with the whole clip. With the header `X-Priority: bulk` it waits behind all others."""
    rendering = body.rendering(body.format)
    clip = await speak(body, request, timeout)
    content = await render(request, clip, rendering)
    headers = {"Content-Disposition": f"attachment; filename=tts_output.{body.format}"} | clip_headers(request, clip)
    return ChunkedBodyResponse(content, media_type=rendering.output.media_type, headers=headers)


async def speak(body: SpeechRequest, request: Request, timeout: float | None) -> Clip:
    """The whole clip, unless its client leaves meanwhile."""
    bypass = get_services(request).clip_bypass if body.optimize_for_latency else 0
    job = new_ticket(request, timeout, _priority(request), bypass=bypass, urgent=bypass)
    cutting: Cutting = "short_start" if body.optimize_for_latency else "clip"
    speaking = get_services(request).synthesizer.speak(body.speech(), job, cutting=cutting)
    return await cancel_on_disconnect(request.receive, speaking)


def _priority(request: Request) -> Priority:
    asked = request.headers.get("x-priority", "normal").lower()
    if asked not in PRIORITIES:
        raise InvalidInput(f"X-Priority must be {' or '.join(PRIORITIES)} (got {asked[:20]!r})", field="X-Priority")
    return PRIORITIES[asked]


async def render(request: Request, clip: Clip, rendering: Rendering) -> list[bytes]:
    """The whole file, in parts, unless its client leaves meanwhile."""
    renderers: Renderers = request.app.state.renderers
    return await cancel_on_disconnect(request.receive, renderers.render(clip.audio, rendering, clip.pcm16))


class ChunkedBodyResponse(Response):
    """A body in chunks, which are sent as they are: to join large ones would hold up the event loop."""

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
        **skipped_header(clip.skipped),
    }


def server_timing(text_ms: float, queue_ms: float, inference_ms: float) -> str:
    """Where the time went, as browsers show it. What there is between these, the access log adds as a total."""
    return f"text;dur={text_ms:.1f}, queue;dur={queue_ms:.1f}, inference;dur={inference_ms:.1f}"


def skipped_header(characters: int) -> dict[str, str]:
    """Tells how many characters were left out, as the language cannot say them."""
    return {"X-Skipped-Characters": str(characters)} if characters else {}


def batching_enabled(request: Request) -> str:
    return str(get_services(request).queue.options.enabled).lower()
