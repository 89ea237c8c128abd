"""`POST /tts` and the voices it can use."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from kokoro_server.api.disconnect import while_connected
from kokoro_server.api.quick import QuickRoute
from kokoro_server.api.rendering import rendered
from kokoro_server.api.schemas import ErrorAnswer, TTSRequest, Voice, Voices
from kokoro_server.audio.encode import ENCODINGS
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.queue import Job
from kokoro_server.g2p import languages
from kokoro_server.parts import Parts
from kokoro_server.synthesis import Clip

router = APIRouter(tags=["speech"], route_class=QuickRoute)

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "Unknown voice or language, or a body that is no JSON"},
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


def parts(request: Request) -> Parts:
    found: Parts = request.app.state.parts
    return found


def job(request: Request, timeout: float | None, priority: Priority = Priority.NORMAL, **options: int) -> Job:
    queue = parts(request).queue
    return queue.job(priority=priority, deadline=queue.now() + timeout if timeout else math.inf, **options)


@router.post("/tts", response_class=Response, responses={200: {"description": "The clip", "content": AUDIO}, **ERRORS})
async def tts(body: TTSRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and answer with the whole clip."""
    rendering = body.rendering(body.format)
    bypass = parts(request).settings.bypass_chunks if body.optimize_for_latency else 0
    work = parts(request).synthesizer.speak(body.speech(), job(request, timeout, bypass=bypass, urgent=bypass))
    clip = await while_connected(request.receive, work)
    content = await rendered(clip.audio, rendering, clip.pcm16)
    headers = {"Content-Disposition": f"attachment; filename=tts_output.{body.format}"} | clip_headers(request, clip)
    return Response(content, media_type=rendering.output.media_type, headers=headers)


def clip_headers(request: Request, clip: Clip) -> dict[str, str]:
    return {
        "X-Audio-Duration": f"{clip.seconds:.3f}",
        "X-Voice-Used": clip.voice,
        "X-Batching-Enabled": batching_enabled(request),
        "X-Queue-Time-Ms": f"{clip.queue_ms:.1f}",
        "X-Inference-Time-Ms": f"{clip.inference_ms:.1f}",
        "X-Batch-Size": str(clip.batch_size),
    }


def batching_enabled(request: Request) -> str:
    return str(parts(request).queue.options.enabled).lower()


@router.get("/voices")
async def voices(request: Request) -> Voices:
    """Every voice, by name."""
    book = parts(request).model.voices
    return Voices(
        voices=[
            Voice(
                name=info.name,
                title=info.title,
                language=languages.of_voice(info.name).code,
                gender=info.gender,
                grade=info.grade,
            )
            for info in map(book.info, book.names())
        ]
    )
