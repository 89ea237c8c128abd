"""What Kokoro-FastAPI has beyond OpenAI's API, for clients that were written for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Request, Response

from kokoro_server.api.compat.kokoro_fastapi.schemas import (
    Blend,
    CaptionedSpeech,
    CaptionedSpeechRequest,
    DialogueRequest,
    PhonemesRequest,
    Phonemized,
    PhonemizeRequest,
    WordTimestamp,
)
from kokoro_server.api.compat.openai.schemas import OpenAIErrorAnswer
from kokoro_server.api.disconnect import CancellableStreamingResponse, cancel_on_disconnect
from kokoro_server.api.error_shapes import OPENAI_FIELDS
from kokoro_server.api.routes import captioned, stream, tts
from kokoro_server.api.routes.captioned import FRAMING, NDJSON, CaptionEvent
from kokoro_server.api.routes.stream import STREAMING_HEADERS, as_text, open_renderer, start_synthesis
from kokoro_server.api.routes.tts import (
    AUDIO,
    ERRORS,
    ChunkedBodyResponse,
    RequestTimeout,
    clip_headers,
    get_services,
    render,
    skipped_header,
)
from kokoro_server.api.schemas.speech import DEFAULT_VOICE, TTSRequest
from kokoro_server.assets import torch_writer
from kokoro_server.engine import vocab
from kokoro_server.errors import KokoroError, for_client
from kokoro_server.synthesis.synthesizer import Clip, Speech
from kokoro_server.text.reader import Reading

router = APIRouter(tags=["Kokoro-FastAPI"])

LINES: dict[int | str, dict[str, Any]] = {200: {"description": "Audio and words", "content": {NDJSON: {}}}}
CLIP: dict[int | str, dict[str, Any]] = {200: {"description": "The audio", "content": AUDIO}}
WAV: dict[int | str, dict[str, Any]] = {200: {"description": "The clip", "content": {"audio/wav": {}}}}
PACK: dict[int | str, dict[str, Any]] = {
    200: {"description": "A voice pack, as torch.save writes it", "content": {"application/octet-stream": {}}},
    "4XX": {"model": OpenAIErrorAnswer, "description": "No such voice, or not a blend"},
}


@router.post("/dev/captioned_speech", response_model=CaptionedSpeech, responses=ERRORS | LINES)
async def captioned_speech(body: CaptionedSpeechRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and tell when each word is said.

    With `stream`, as by default, the answer is an object a line, as the audio is made: the stretches of audio make one
    file, the times are from its start. A line with `error` may be the last, after which the connection breaks off.
    """
    request.scope["model"] = body.model
    with _their_field_names():
        if body.stream:
            return await _stream(body, request, timeout)
        return await _whole(body, request, timeout)


@router.post("/dev/dialogue", response_class=Response, responses=ERRORS | CLIP)
async def dialogue(body: DialogueRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a dialogue, each turn in its voice."""
    request.scope["model"] = body.model
    answer = stream.stream if body.stream else tts.tts
    with _their_field_names():
        return await answer(body.to_tts_request(), request, timeout)


@router.post("/dev/phonemize", responses=ERRORS)
async def phonemize(body: PhonemizeRequest, request: Request) -> Phonemized:
    """The phonemes of a text. `POST /text/reading` tells more."""
    speech = Speech(voice=DEFAULT_VOICE, text=body.text, language=body.language)
    reading = await cancel_on_disconnect(request.receive, get_services(request).synthesizer.reading(speech))
    return await asyncio.to_thread(_phonemized, reading)


@router.post("/dev/generate_from_phonemes", response_class=Response, responses=ERRORS | WAV)
async def generate_from_phonemes(body: PhonemesRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak Kokoro's phonemes, as a WAV file."""
    return await tts.tts(TTSRequest(phonemes=body.phonemes, voice=body.voice), request, timeout)


@router.post("/v1/audio/voices/combine", response_class=Response, responses=PACK)
async def combine(body: Annotated[Blend, Body()], request: Request) -> Response:
    """The pack of a blend, as a `.pt` file. To speak with it, name the blend in `voice`: nothing is kept here."""
    book = get_services(request).voices
    voice = await book.hold(body)
    content = await asyncio.to_thread(torch_writer.tensor, voice.pack[:, None])
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(voice.name)}.pt"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.get("/v1/test")
async def test() -> dict[str, str]:
    """Tells that the server is there."""
    return {"status": "ok"}


@contextmanager
def _their_field_names() -> Iterator[None]:
    try:
        yield
    except KokoroError as error:
        error.field = OPENAI_FIELDS.get(error.field, error.field) if error.field else None
        raise


async def _whole(body: CaptionedSpeechRequest, request: Request, timeout: float | None) -> Response:
    speech = body.to_captioned_request()
    rendering = speech.rendering(body.response_format)
    clip = await tts.speak(speech, request, timeout)
    content = await render(request, clip, rendering)
    chunks = await asyncio.to_thread(_json, clip, content, rendering.output.media_type, timed=body.return_timestamps)
    return ChunkedBodyResponse(chunks, media_type="application/json", headers=clip_headers(request, clip))


def _json(clip: Clip, content: list[bytes], media_type: str, *, timed: bool) -> list[bytes]:
    words = [WordTimestamp(word=word.text, start_time=word.start, end_time=word.end) for word in clip.words]
    answer = CaptionedSpeech(audio="", audio_format=media_type, timestamps=words if timed else [])
    return captioned.json_with_audio(answer, content)


async def _stream(body: CaptionedSpeechRequest, request: Request, timeout: float | None) -> Response:
    speech = body.to_captioned_request()
    rendering = speech.rendering(body.response_format)
    first, segments = await start_synthesis(request, speech, timeout)
    events = captioned.audio_events(first, segments, await open_renderer(request, rendering))
    objects = _objects(events, rendering.output.media_type, timed=body.return_timestamps)
    lines = as_text(request, objects, FRAMING[NDJSON], _error)
    return CancellableStreamingResponse(lines, NDJSON, STREAMING_HEADERS | skipped_header(first.skipped))


async def _objects(
    events: AsyncGenerator[CaptionEvent, None], media_type: str, *, timed: bool
) -> AsyncGenerator[CaptionEvent, None]:
    async with aclosing(events):
        async for event in events:
            if event["type"] != "audio":
                continue
            words = [
                {"word": word["text"], "start_time": word["start"], "end_time": word["end"]} for word in event["words"]
            ]
            if event["audio"] or words:
                yield {
                    "audio": event["audio"],
                    "audio_format": media_type,
                    "timestamps": words if timed else [],
                }


def _error(error: Exception) -> CaptionEvent:
    known = for_client(error)
    return {"error": {"code": known.code, "message": known.message, "field": known.field}}


def _phonemized(reading: Reading) -> Phonemized:
    phonemes = " ".join(sentence.phonemes for sentence in reading.sentences)
    return Phonemized(phonemes=phonemes, tokens=list(vocab.tokenize(phonemes)))
