"""`GET /voices`, page by page. Only below `/cartesia`: `/voices` is this server's own."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from kokoro_server import languages
from kokoro_server.api.state import get_services
from kokoro_server.api.voice_lists import known_voices
from kokoro_server.errors import InvalidInput, NoSuchVoice, UnknownVoice
from kokoro_server.runtime.json import JsonObject
from kokoro_server.voices import VoiceInfo

router = APIRouter(tags=["Cartesia"])

CREATED = "2025-01-27T00:00:00Z"  # when the voices of Kokoro-82M v1.0 were published
GENDERS = {"female": "feminine", "male": "masculine"}


@router.get("/voices")
async def voices(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    starting_after: str | None = None,
    ending_before: str | None = None,
    q: str | None = None,
    gender: Literal["feminine", "masculine", "gender_neutral"] | None = None,
    is_owner: bool = False,
) -> JsonObject:
    """A page of the voices."""
    found = [_voice(info) for info in await known_voices(get_services(request))]
    names = [voice["id"] for voice in found]
    start = _place(names, starting_after, "starting_after") + 1 if starting_after else 0
    end = _place(names, ending_before, "ending_before") if ending_before else len(names)
    wanted = [voice for voice in found[start:end] if _matches(voice, q, gender) and not is_owner]  # nobody owns one
    page = wanted[-limit:] if ending_before else wanted[:limit]
    more = len(wanted) > len(page)
    return {"data": page, "has_more": more, "next_page": page[-1]["id"] if more and not ending_before else None}


@router.get("/voices/{name:path}")
async def voice(name: str, request: Request) -> JsonObject:
    """A voice by its name."""
    book = get_services(request).voices
    await book.refresh()
    try:
        return _voice(book.info(name))
    except UnknownVoice as error:
        raise NoSuchVoice(error.message, field="name") from error


def _place(names: list[str], name: str, field: str) -> int:
    if name not in names:
        raise InvalidInput(f"{field}: unknown voice {name[:60]!r}", field=field)
    return names.index(name)


def _matches(voice: JsonObject, query: str | None, gender: str | None) -> bool:
    named = not query or any(query.lower() in voice[field].lower() for field in ("id", "name", "description"))
    return named and gender in (None, voice["gender"])


def _voice(info: VoiceInfo) -> JsonObject:
    language = languages.of_voice(info.language)
    return {
        "id": info.name,
        "name": info.title,
        "tagline": "",
        "description": f"{language.name}, {info.gender}",
        "language": language.code.partition("-")[0],
        "locales": [{"locale": language.code, "is_native": True}],
        "gender": GENDERS[info.gender],
        "created_at": CREATED,
        "is_owner": False,
        "is_public": True,
        "access": "public",
        "visibility": "all",
    }
