"""`/voices`: all voices, and named blends."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from kokoro_server.api.schemas.voices import VoiceAnswer, VoiceDefinition, VoicesAnswer
from kokoro_server.api.speech import error_responses, only
from kokoro_server.api.state import get_services
from kokoro_server.api.voice_lists import absent_languages, list_voices, voice_answer
from kokoro_server.errors import Forbidden
from kokoro_server.voices.custom import CustomVoices

router = APIRouter(tags=["voices"])

ERRORS = error_responses(
    {
        400: "The blend names an unknown voice or an unknown language",
        403: "This server keeps no voices (VOICES_PATH), or cannot write them",
        404: "No such voice to be removed",
        409: "Other voices are made of it, it is a voice pack, or the file is broken",
        422: "A field is missing, unknown or wrong; or the voice is made of itself",
        503: "The disk is full, or the file is being changed; Retry-After says when to come back",
    }
)


@router.get("/voices")
async def voices(request: Request) -> VoicesAnswer:
    """Every voice, by name. A voice that is not `installed` speaks phonemes, and text of other languages."""
    return await list_voices(get_services(request))


@router.post("/voices", status_code=201, responses=only(ERRORS, 400, 403, 409, 422, 503))
async def define(body: VoiceDefinition, request: Request) -> VoiceAnswer:
    """Name a blend or another voice, in place of the one that has the name. VOICES_PATH keeps it."""
    await _custom_voices(request).define(body.name, body.fields())
    services = get_services(request)
    return voice_answer(services.voices.info(body.name), await absent_languages(services))


@router.delete("/voices/{name}", status_code=204, response_class=Response, responses=only(ERRORS, 403, 404, 409, 503))
async def remove(name: Annotated[str, Path(description="Of a named blend.")], request: Request) -> Response:
    """Forget a named blend. Speech that has begun with it is finished."""
    await _custom_voices(request).remove(name)
    return Response(status_code=204)


def _custom_voices(request: Request) -> CustomVoices:
    custom_voices = get_services(request).custom_voices
    if custom_voices is None:
        raise Forbidden("this server keeps no voices: its setting VOICES_PATH must name a folder for them")
    return custom_voices
