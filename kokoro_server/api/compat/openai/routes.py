"""`/v1`: the speech part of OpenAI's API, for OpenAI's clients and those that speak the same protocol.

Point a client at `http://localhost:8880/v1`; any model name will do, and any API key, unless API_KEYS is set. Errors
below `/v1` have OpenAI's shape, and unknown fields are ignored. OpenAI has no `POST /v1/audio/speech/timestamps`: it is
an addition. Open WebUI and similar clients ask for `GET /v1/audio/models` and `/v1/audio/voices`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePath
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from kokoro_server import languages
from kokoro_server.api.captioned import captioned_response, event_audio
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
from kokoro_server.api.downloads import DownloadableResponse, downloads_folder, find_download
from kokoro_server.api.error_shapes import openai_error
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.routes.jobs.files import file_response
from kokoro_server.api.schemas.answers import Captioned
from kokoro_server.api.speech import AUDIO, RequestTimeout, Responses, clip_response
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import SSE, Events, RenderedSegments, event_stream, stream_response
from kokoro_server.api.voice_lists import absent_languages, known_voices
from kokoro_server.audio.formats import ENCODINGS, Format
from kokoro_server.errors import KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.voices import OPENAI_VOICES

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=FastPathRoute)

ERRORS: Responses = {
    "4XX": {"model": OpenAIErrorAnswer, "description": "A field is wrong (400), too busy (429)"},
    "5XX": {"model": OpenAIErrorAnswer, "description": "As for POST /tts"},
}


DOWNLOAD: Responses = {200: {"description": "The audio", "content": AUDIO}}
FileName = Annotated[str, Query(description="The name to save the file under; its suffix stays.", max_length=500)]
NOT_IN_STEM = re.compile(r"[^A-Za-z0-9._-]+")
MAX_STEM = 100


@router.post(
    "/audio/speech",
    response_class=StreamingResponse,
    responses={200: {"description": "The audio, sent while it is made", "content": {**AUDIO, SSE: {}}}, **ERRORS},
)
async def speech(body: OpenAISpeechRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text, as OpenAI's `audio.speech.create` does, and send the audio as it is made; with `stream` `false`,
    all of it at once.

    With `stream_format` `sse` it comes as events: `speech.audio.delta`, each with the next bytes of the file in base64,
    then `speech.audio.done` with the usage: `input_tokens` are phonemes, `output_tokens` are 25 ms of speech each.
    After a failure, `error` is the last event and the connection breaks off.
    """
    request.scope["model"] = body.model  # for the log
    if body.stream_format == "sse":
        body.refuse_link("events are no audio file; set stream_format to audio")
        return await event_stream(request, body.to_tts_request(), timeout, SSE, _events, _error_event)
    folder = downloads_folder(request) if body.return_download_link else None
    respond = stream_response if body.stream else clip_response
    answer = await respond(body.to_tts_request(), request, timeout)
    return DownloadableResponse(answer, folder, body.response_format) if folder else answer


@router.get("/download/{file}", response_class=FileResponse, responses=DOWNLOAD | ERRORS)
async def download(file: str, request: Request, name: FileName = "") -> Response:
    """The audio of an answer to `return_download_link`, for an hour. `Range` asks for a part of it."""
    path = await asyncio.to_thread(find_download, downloads_folder(request), file)
    stem = NOT_IN_STEM.sub("_", PurePath(name).stem)[:MAX_STEM].strip("._-") or "speech"
    encoding = ENCODINGS[cast(Format, path.suffix[1:])]
    headers = {"Cache-Control": "no-store"}
    return await file_response(request, path, stem + path.suffix, encoding.media_type, headers)


router.add_api_route("/download/{file}", download, methods=["HEAD"], include_in_schema=False)


@router.post("/audio/speech/timestamps", response_model=Captioned, responses=ERRORS)
async def timestamps(body: OpenAISpeechRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and return the time of each word. The body is that of `/v1/audio/speech`, without `stream_format`;
    the answer is that of `/tts/captioned`.
    """
    request.scope["model"] = body.model
    return await captioned_response(body.to_captioned_request(), request, timeout)


@router.get("/models")
async def models(request: Request) -> OpenAIModels:
    """Names for Kokoro v1.0, and the models of MODELS_PATH. Any other name means Kokoro v1.0 too."""
    return OpenAIModels(data=_known_models(request))


@router.get("/models/{name:path}")
async def model(name: str) -> OpenAIModel:
    """The model, by whatever name."""
    return OpenAIModel(id=name)


@router.get("/audio/models")
async def audio_models(request: Request) -> OpenAIAudioModels:
    """The names that `/v1/models` lists."""
    return OpenAIAudioModels(models=_known_models(request))


@router.get("/audio/voices")
async def voices(request: Request, legacy: bool = False) -> OpenAIVoices | OpenAIVoiceNames:
    """Every name that `voice` may have: OpenAI's, then this server's. With `legacy`, only the names."""
    known = {info.name: info for info in await known_voices(get_services(request))}
    named = {theirs: known[ours] for theirs, ours in OPENAI_VOICES.items() if ours in known} | known
    if legacy:
        return OpenAIVoiceNames(voices=list(named))
    absent = await absent_languages(get_services(request))
    return OpenAIVoices(
        voices=[
            OpenAIVoice(
                id=name,
                name=name,
                title=info.title if name == info.name else name.title(),
                voice=info.name,
                language=(language := languages.of_voice(info.language).code),
                gender=info.gender,
                installed=language not in absent,
            )
            for name, info in named.items()
        ]
    )


def _known_models(request: Request) -> list[OpenAIModel]:
    ours = [OpenAIModel(id=name) for name in MODELS]
    others = get_services(request).models
    return ours + ([OpenAIModel(id=name, owned_by="user") for name in others.models] if others else [])


async def _events(segments: RenderedSegments) -> Events:
    phonemes = frames = 0
    async for segment, data in segments:
        if segment.outcome:
            durations = segment.outcome.result.durations
            phonemes += len(durations) - 2  # without the pads at both ends
            frames += int(durations.sum())
        if data:
            for audio in event_audio(data):
                yield {"type": "speech.audio.delta", "audio": audio}
    usage = {"input_tokens": phonemes, "output_tokens": frames, "total_tokens": phonemes + frames}
    yield {"type": "speech.audio.done", "usage": usage}


def _error_event(error: KokoroError) -> JsonObject:
    _, body = openai_error(error.status, error.code, error.message, error.field)
    return {"type": "error", **body}
