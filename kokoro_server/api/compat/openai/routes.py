"""`/v1`: the speech part of OpenAI's API, for OpenAI's clients and others that speak it.

Point a client at `http://localhost:8880/v1`; any model name will do, and any API key, unless API_KEYS is set. Errors
below `/v1` have OpenAI's shape, and unknown fields are ignored. OpenAI has no `POST /v1/audio/speech/timestamps`: we
added it. `GET /v1/audio/models` and `/v1/audio/voices` are asked for by Open WebUI and others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server import languages
from kokoro_server.api.async_render import AsyncRenderer
from kokoro_server.api.compat.openai.schemas import (
    MODELS,
    OpenAIAudioModels,
    OpenAIErrorAnswer,
    OpenAIModel,
    OpenAIModels,
    OpenAISpeechRequest,
    OpenAIVoice,
    OpenAIVoiceNames,
    OpenAIVoices,
)
from kokoro_server.api.disconnect import CancellableStreamingResponse
from kokoro_server.api.error_shapes import openai_error
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.routes import captioned, stream, tts
from kokoro_server.api.routes.captioned import FRAMING, SSE, CaptionEvent, event_audio
from kokoro_server.api.routes.stream import STREAMING_HEADERS, as_text, open_renderer, start_synthesis
from kokoro_server.api.routes.tts import AUDIO, RequestTimeout, get_services, skipped_header
from kokoro_server.api.routes.voices import absent_languages
from kokoro_server.api.schemas.speech import Captioned
from kokoro_server.errors import for_client
from kokoro_server.synthesis.synthesizer import Segment
from kokoro_server.voices import OPENAI_VOICES

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=FastPathRoute)

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": OpenAIErrorAnswer, "description": "A field is wrong (400), too busy (429)"},
    "5XX": {"model": OpenAIErrorAnswer, "description": "As for POST /tts"},
}


@router.post(
    "/audio/speech",
    response_class=StreamingResponse,
    responses={200: {"description": "The audio, sent while it is made", "content": {**AUDIO, SSE: {}}}, **ERRORS},
)
async def speech(body: OpenAISpeechRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text, as OpenAI's `audio.speech.create` does, and send the audio as it is made; with `stream` `false`,
    all of it at once.

    With `stream_format` `sse` it comes as events: `speech.audio.delta`, each with the next stretch of the file in
    base64, then `speech.audio.done` with the usage: `input_tokens` are phonemes, `output_tokens` are 25 ms of speech
    each. An `error` event may stand in its place, after which the connection breaks off.
    """
    request.scope["model"] = body.model  # for the log
    if body.stream_format == "sse":
        return await _event_stream(body, request, timeout)
    answer = stream.stream if body.stream else tts.tts
    return await answer(body.to_tts_request(), request, timeout)


@router.post("/audio/speech/timestamps", response_model=Captioned, responses=ERRORS)
async def timestamps(body: OpenAISpeechRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and tell when each word is said. The body is as for `/v1/audio/speech`, `stream_format` aside;
    the answer as that of `/tts/captioned`.
    """
    request.scope["model"] = body.model
    return await captioned.captioned(body.to_captioned_request(), request, timeout)


@router.get("/models")
async def models() -> OpenAIModels:
    """Names by which the model may be asked for. Any other does as well."""
    return OpenAIModels(data=_known_models())


@router.get("/models/{name:path}")
async def model(name: str) -> OpenAIModel:
    """The model, by whatever name."""
    return OpenAIModel(id=name)


@router.get("/audio/models")
async def audio_models() -> OpenAIAudioModels:
    """The same names as of `/v1/models`."""
    return OpenAIAudioModels(models=_known_models())


@router.get("/audio/voices")
async def voices(request: Request, legacy: bool = False) -> OpenAIVoices | OpenAIVoiceNames:
    """Every name that `voice` may have: OpenAI's, then our own. With `legacy`, the bare names."""
    book = get_services(request).voices
    await book.refresh()
    now = book.now
    known = now.names()
    named = {theirs: ours for theirs, ours in OPENAI_VOICES.items() if ours in known} | {name: name for name in known}
    if legacy:
        return OpenAIVoiceNames(voices=list(named))
    absent = await absent_languages(get_services(request))
    return OpenAIVoices(
        voices=[
            OpenAIVoice(
                id=name,
                name=name.title() if name != ours else now.info(ours).title,
                voice=ours,
                language=(language := languages.of_voice(now.info(ours).language).code),
                gender=now.info(ours).gender,
                installed=language not in absent,
            )
            for name, ours in named.items()
        ]
    )


def _known_models() -> list[OpenAIModel]:
    return [OpenAIModel(id=name) for name in MODELS]


async def _event_stream(body: OpenAISpeechRequest, request: Request, timeout: float | None) -> Response:
    tts_request = body.to_tts_request()
    rendering = tts_request.rendering(tts_request.format)
    first, segments = await start_synthesis(request, tts_request, timeout)
    renderer = await open_renderer(request, rendering)
    lines = as_text(request, _events(first, segments, renderer), FRAMING[SSE], _error_event)
    return CancellableStreamingResponse(lines, SSE, STREAMING_HEADERS | skipped_header(first.skipped))


async def _events(
    first: Segment, others: AsyncGenerator[Segment, None], renderer: AsyncRenderer
) -> AsyncGenerator[CaptionEvent, None]:
    phonemes = frames = 0
    async with aclosing(others):
        segment: Segment | None = first
        while segment is not None:
            if segment.outcome:
                durations = segment.outcome.result.durations
                phonemes += len(durations) - 2  # without the pads at both ends
                frames += int(durations.sum())
            if data := await renderer.write(segment.audio, pcm16=segment.pcm16, last=segment.last):
                for audio in event_audio(data):
                    yield {"type": "speech.audio.delta", "audio": audio}
            segment = await anext(others, None)
    usage = {"input_tokens": phonemes, "output_tokens": frames, "total_tokens": phonemes + frames}
    yield {"type": "speech.audio.done", "usage": usage}


def _error_event(error: Exception) -> CaptionEvent:
    known = for_client(error)
    _, body = openai_error(known.status, known.code, known.message, known.field)
    return {"type": "error", **body}
