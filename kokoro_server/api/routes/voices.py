"""`/voices`: all voices, and named blends."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from kokoro_server.api.schemas.voices import VoiceAnswer, VoiceDefinition, VoicesAnswer
from kokoro_server.api.speech import error_responses, only
from kokoro_server.api.state import get_services
from kokoro_server.api.voice_lists import absent_languages, list_voices, voice_answer
from kokoro_server.callers.current import caller
from kokoro_server.config.settings import Settings
from kokoro_server.errors import Conflict, Forbidden, UnknownVoice
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import mix
from kokoro_server.voices.custom import CustomVoices
from kokoro_server.voices.custom.owners import VoiceEditor

router = APIRouter(tags=["voices"])

ERRORS = error_responses(
    {
        400: "The blend names an unknown voice or an unknown language",
        403: "The voice belongs to another key or to the server; or VOICES_PATH is not set or cannot be written",
        404: "No such voice to be removed",
        409: "The caller has all the voices it may have; others are made of it, or it is DEFAULT_VOICE; it is a pack; "
        "or the file is broken",
        422: "A field is missing, unknown or wrong; or the voice is made of itself",
        429: "Too many requests change the voices at once",
        503: "The disk is full, or the file is being changed; Retry-After says when to come back",
    }
)


@router.get("/voices")
async def voices(request: Request) -> VoicesAnswer:
    """Every voice, by name. A voice that is not `installed` speaks phonemes, and text of other languages."""
    return await list_voices(get_services(request))


@router.post("/voices", status_code=201, responses=only(ERRORS, 400, 403, 409, 422, 429, 503))
async def define(body: VoiceDefinition, request: Request) -> VoiceAnswer:
    """Name a blend or another voice, in place of the one that has the name. VOICES_PATH keeps it.

    With API keys, the voice belongs to the key that defined it first.
    """
    services = get_services(request)
    await _custom_voices(services).define(body.name, body.fields(), _editor(services.settings))
    return voice_answer(services.voices.info(body.name), await absent_languages(services))


@router.delete(
    "/voices/{name}", status_code=204, response_class=Response, responses=only(ERRORS, 403, 404, 409, 429, 503)
)
async def remove(name: Annotated[str, Path(description="Of a named blend.")], request: Request) -> Response:
    """Forget a named blend. Speech that has begun with it is finished."""
    services = get_services(request)
    if any(name in _parts(spec, services.voices.names()) for _, spec in services.settings.default_voice):
        raise Conflict(f"{name} is the server's DEFAULT_VOICE, or a part of it")
    await _custom_voices(services).remove(name, _editor(services.settings))
    return Response(status_code=204)


def _parts(spec: str, known: Collection[str]) -> Collection[str]:
    try:
        return mix.parse(spec, known)
    except UnknownVoice:
        return ()  # a file of DEFAULT_VOICE has been removed by hand


def _custom_voices(services: Services) -> CustomVoices:
    if services.custom_voices is None:
        raise Forbidden("this server keeps no voices: its setting VOICES_PATH must name a folder for them")
    return services.custom_voices


def _editor(settings: Settings) -> VoiceEditor:
    name = caller.get()
    is_admin = name in settings.admin_keys
    has_keys = bool(settings.api_keys or settings.api_keys_file)
    return VoiceEditor(name, edits_all=is_admin or not has_keys, is_limited=not is_admin)
