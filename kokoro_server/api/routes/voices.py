"""`/voices`: the voices there are, and named blends of one's own."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from kokoro_server import languages
from kokoro_server.api.routes.tts import get_services
from kokoro_server.api.schemas.speech import ErrorAnswer
from kokoro_server.api.schemas.voices import VoiceAnswer, VoiceDefinition, VoicesAnswer
from kokoro_server.errors import Forbidden, KokoroError
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import VoiceInfo
from kokoro_server.voices.custom import CustomVoices

router = APIRouter(tags=["voices"])

G2P_ANSWER = 2.0  # seconds that a list of voices waits to learn which can be used
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "It is made of a voice that there is not, or an unknown language"},
    403: {"model": ErrorAnswer, "description": "This server keeps no voices (VOICES_PATH), or cannot write them"},
    404: {"model": ErrorAnswer, "description": "There is no such voice to be removed"},
    409: {"model": ErrorAnswer, "description": "Others are made of it, it is a voice pack, or the file is broken"},
    422: {"model": ErrorAnswer, "description": "A field is missing, unknown or wrong; or it is made of itself"},
    503: {"model": ErrorAnswer, "description": "The disk is full, or the file is being changed; Retry-After says when"},
}


@router.get("/voices")
async def voices(request: Request) -> VoicesAnswer:
    """Every voice, by name. One that is not `installed` speaks phonemes, and text of other languages."""
    return await list_voices(get_services(request))


@router.post("/voices", status_code=201, responses={status: ERRORS[status] for status in (400, 403, 409, 422, 503)})
async def define(body: VoiceDefinition, request: Request) -> VoiceAnswer:
    """Name a blend, or another voice, in place of one of that name. It is kept in the file of VOICES_PATH."""
    await _own_voices(request).define(body.name, body.fields())
    services = get_services(request)
    return _voice(services.voices.info(body.name), await absent_languages(services))


@router.delete(
    "/voices/{name}",
    status_code=204,
    response_class=Response,
    responses={status: ERRORS[status] for status in (403, 404, 409, 503)},
)
async def remove(name: Annotated[str, Path(description="Of a named blend.")], request: Request) -> Response:
    """Forget a named blend. What is being said with it is said to its end."""
    await _own_voices(request).remove(name)
    return Response(status_code=204)


async def list_voices(services: Services, seconds: float = G2P_ANSWER) -> VoicesAnswer:
    """`seconds`: to wait for the G2P service."""
    book = services.voices
    await book.refresh()
    absent = await absent_languages(services, seconds)
    now = book.now
    return VoicesAnswer(voices=[_voice(info, absent) for info in map(now.info, now.names())])


async def absent_languages(services: Services, seconds: float = G2P_ANSWER) -> set[str]:
    """The languages that text cannot be read in, as they are not installed. None, if the G2P service is down."""
    try:
        return await asyncio.wait_for(services.g2p.not_installed(), seconds)
    except (KokoroError, TimeoutError):
        return set()


def _voice(info: VoiceInfo, absent: set[str]) -> VoiceAnswer:
    language = languages.of_voice(info.language).code
    return VoiceAnswer(
        name=info.name,
        title=info.title,
        language=language,
        gender=info.gender,
        grade=info.grade,
        blend=info.blend,
        installed=language not in absent,
    )


def _own_voices(request: Request) -> CustomVoices:
    own = get_services(request).custom_voices
    if own is None:
        raise Forbidden("this server keeps no voices: its setting VOICES_PATH must name a folder for them")
    return own
