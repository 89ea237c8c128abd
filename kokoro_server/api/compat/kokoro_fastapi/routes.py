"""Kokoro-FastAPI's endpoints beyond OpenAI's API, for clients that were written for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Request, Response

from kokoro_server.api.captioned import audio_events, json_clip_response
from kokoro_server.api.compat.kokoro_fastapi import ssml_text
from kokoro_server.api.compat.kokoro_fastapi.schemas import (
    Blend,
    CaptionedSpeech,
    CaptionedSpeechRequest,
    DialogueRequest,
    PhonemesRequest,
    Phonemized,
    PhonemizeRequest,
    SsmlRequest,
    SsmlSupport,
    SsmlText,
    WordTimestamp,
    their_voice,
)
from kokoro_server.api.compat.lenient import LenientRequest
from kokoro_server.api.compat.openai.schemas import OpenAIErrorAnswer
from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.downloads import DownloadableResponse, downloads_folder
from kokoro_server.api.error_shapes import OPENAI_FIELDS
from kokoro_server.api.speech import AUDIO, ERRORS, RequestTimeout, Responses, clip_response
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import NDJSON, Events, RenderedSegments, event_stream, stream_response
from kokoro_server.assets import torch_writer
from kokoro_server.audio.encode import Output
from kokoro_server.audio.formats import ENCODINGS
from kokoro_server.config.defaults import default_voice
from kokoro_server.engine import vocab
from kokoro_server.errors import Forbidden, KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.speech import Speech
from kokoro_server.text.reader import Reading

router = APIRouter(tags=["Kokoro-FastAPI"])

LINES: Responses = {200: {"description": "Audio and words", "content": {NDJSON: {}}}}
CLIP: Responses = {200: {"description": "The audio", "content": AUDIO}}
WAV: Responses = {200: {"description": "The clip", "content": {"audio/wav": {}}}}
PACK: Responses = {
    200: {"description": "A voice pack, as torch.save writes it", "content": {"application/octet-stream": {}}},
    "4XX": {"model": OpenAIErrorAnswer, "description": "No such voice, or not a blend"},
}


@router.post("/dev/captioned_speech", response_model=CaptionedSpeech, responses=ERRORS | LINES)
async def captioned_speech(body: CaptionedSpeechRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and return the time of each word.

    With `stream`, the default, the answer is one JSON object a line, as the audio is made. The audio of all lines is
    one file, and times count from its start. After a failure, the last line has `error` and the connection breaks off.
    """
    request.scope["model"] = body.model
    with _their_field_names():
        asked = body.with_their_voices(_own_voices(request)).to_captioned_request()
        timed = body.return_timestamps
        if body.stream:
            events = partial(_objects, media_type=ENCODINGS[body.response_format].media_type, timed=timed)
            return await event_stream(request, asked, timeout, NDJSON, events, _error)
        return await json_clip_response(request, asked, timeout, partial(_captioned, timed=timed))


@router.post("/dev/dialogue", response_class=Response, responses=ERRORS | CLIP)
async def dialogue(body: DialogueRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a dialogue, each turn in its voice."""
    request.scope["model"] = body.model
    folder = downloads_folder(request) if body.return_download_link else None
    respond = stream_response if body.stream else clip_response
    with _their_field_names():
        answer = await respond(body.with_their_voices(_own_voices(request)).to_tts_request(), request, timeout)
    return DownloadableResponse(answer, folder, body.response_format) if folder else answer


@router.post("/dev/phonemize", responses=ERRORS)
async def phonemize(body: PhonemizeRequest, request: Request) -> Phonemized:
    """The phonemes of a text. `POST /text/reading` returns more."""
    speech = Speech(voice=default_voice(body.language), text=body.text, language=body.language)
    reading = await cancel_on_disconnect(request.receive, get_services(request).synthesizer.reading(speech))
    return await asyncio.to_thread(_phonemized, reading)


@router.post("/dev/generate_from_phonemes", response_class=Response, responses=ERRORS | WAV)
async def generate_from_phonemes(body: PhonemesRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak Kokoro's phonemes, as a WAV file."""
    voice = their_voice(body.voice, _own_voices(request))
    return await clip_response(LenientRequest(phonemes=body.phonemes, voice=voice, format="wav"), request, timeout)


@router.post("/v1/audio/voices/combine", response_class=Response, responses=PACK)
async def combine(body: Annotated[Blend, Body()], request: Request) -> Response:
    """The pack of a blend, as a `.pt` file. To speak with it, name the blend in `voice`: nothing is kept here."""
    voice = await get_services(request).voices.hold(body)
    content = await asyncio.to_thread(torch_writer.tensor, voice.pack[:, None])
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(voice.name)}.pt"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.get("/v1/test")
async def test() -> dict[str, str]:
    """Answers while the server runs."""
    return {"status": "ok"}


@router.get("/dev/ssml")
async def ssml_support() -> SsmlSupport:
    """What `POST /dev/ssml` translates."""
    return ssml_text.SUPPORT


@router.post("/dev/ssml", responses=ERRORS)
async def translate_ssml(body: SsmlRequest, request: Request) -> SsmlText:
    """SSML as text with the tags `[pause:…]`, `[voice:…]` and `[rate:…]`. `ssml` of a request for speech keeps more."""
    if "<speak" not in body.text:
        return SsmlText(text=body.text)
    voice = their_voice(body.voice, _own_voices(request)) or default_voice()
    parts = await get_services(request).synthesizer.script(Speech(voice, body.text, ssml=True))
    return SsmlText(text=await asyncio.to_thread(ssml_text.tagged, parts, tags=bool(body.voice)))


@router.post("/dev/unload", include_in_schema=False)
@router.get("/debug/{name:path}", include_in_schema=False)
async def disabled(request: Request) -> Response:
    """Kokoro-FastAPI answers so, too, unless its settings say otherwise."""
    raise Forbidden(f"{request.url.path} is disabled; see KOKORO_IDLE_UNLOAD_S, /health and /metrics")


def _own_voices(request: Request) -> list[str]:
    return get_services(request).voices.names()


@contextmanager
def _their_field_names() -> Iterator[None]:
    try:
        yield
    except KokoroError as error:
        error.field = OPENAI_FIELDS.get(error.field, error.field) if error.field else None
        raise


def _captioned(clip: Clip, output: Output, *, timed: bool) -> CaptionedSpeech:
    words = [WordTimestamp(word=word.text, start_time=word.start, end_time=word.end) for word in clip.words]
    return CaptionedSpeech(audio="", audio_format=output.media_type, timestamps=words if timed else [])


async def _objects(segments: RenderedSegments, media_type: str, *, timed: bool) -> Events:
    async with aclosing(audio_events(segments)) as events:
        async for event in events:
            if event["type"] != "audio":
                continue
            words = [
                {"word": word["text"], "start_time": word["start"], "end_time": word["end"]} for word in event["words"]
            ]
            if event["audio"] or words:
                yield {"audio": event["audio"], "audio_format": media_type, "timestamps": words if timed else []}


def _error(error: KokoroError) -> JsonObject:
    return {"error": {"code": error.code, "message": error.message, "field": error.field}}


def _phonemized(reading: Reading) -> Phonemized:
    phonemes = " ".join(sentence.phonemes for sentence in reading.sentences)
    return Phonemized(phonemes=phonemes, tokens=list(vocab.tokenize(phonemes)))
