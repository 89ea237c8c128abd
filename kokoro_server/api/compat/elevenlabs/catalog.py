"""Lists of voices and models, and the account that some clients read before they speak."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match
from starlette.types import Scope

from kokoro_server import languages
from kokoro_server.api.compat.elevenlabs import stock_voices
from kokoro_server.api.compat.openai.schemas import VoiceName
from kokoro_server.api.state import get_services
from kokoro_server.api.voice_lists import known_voices
from kokoro_server.errors import InvalidInput
from kokoro_server.voices import VoiceInfo

router = APIRouter(tags=["ElevenLabs"])

# The listed names; any name means Kokoro-82M.
MODELS = ("kokoro", "eleven_flash_v2_5", "eleven_turbo_v2_5", "eleven_multilingual_v2")
MAX_PAGE = 100
UNLIMITED = 2**31 - 1  # characters


class TheirVoice(BaseModel):
    voice_id: str
    name: str
    category: Literal["premade"] = "premade"
    labels: dict[str, str]
    description: str
    preview_url: None = None


class TheirVoices(BaseModel):
    voices: list[TheirVoice]


class VoicePage(TheirVoices):
    has_more: bool
    total_count: int
    next_page_token: str | None


class ModelLanguage(BaseModel):
    language_id: str
    name: str


class TheirModel(BaseModel):
    model_id: str
    name: str
    description: str = "Kokoro-82M"
    can_do_text_to_speech: bool = True
    can_do_voice_conversion: bool = False
    can_be_finetuned: bool = False
    can_use_style: bool = False
    can_use_speaker_boost: bool = False
    maximum_text_length_per_request: int
    languages: list[ModelLanguage]


class Overage(BaseModel):
    amount: str = "0"
    currency: str = "usd"


class Subscription(BaseModel):
    """Nothing is counted, and nothing is paid for. ElevenLabs' clients require every key."""

    tier: str = "free"
    status: str = "active"
    character_count: int = 0
    character_limit: int = UNLIMITED
    can_extend_character_limit: bool = False
    allowed_to_extend_character_limit: bool = False
    max_character_limit_extension: int | None = None
    max_credit_limit_extension: int = 0
    next_character_count_reset_unix: int | None = None
    voice_slots_used: int = 0
    professional_voice_slots_used: int = 0
    professional_voice_slots_used_in_workspace: int = 0
    voice_limit: int = 0
    voice_add_edit_counter: int = 0
    professional_voice_limit: int = 0
    can_extend_voice_limit: bool = False
    can_use_instant_voice_cloning: bool = False
    can_use_professional_voice_cloning: bool = False
    current_overage: Overage = Overage()
    open_invoices: list[str] = []
    has_open_invoices: bool = False


class User(BaseModel):
    user_id: str = "local"
    workspace_id: str = "local"
    subscription: Subscription = Subscription()
    is_new_user: bool = False
    can_use_delayed_payment_methods: bool = False
    is_onboarding_completed: bool = True
    is_onboarding_checklist_completed: bool = True
    created_at: int = 0
    seat_type: str = "workspace_admin"


class KeyedRoute(APIRoute):
    """Only for requests with ElevenLabs' key header: OpenAI's clients expect a different answer at the same path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not any(name == b"xi-api-key" for name, _ in scope.get("headers", ())):
            return Match.NONE, {}
        return super().matches(scope)


@router.get("/v1/voices")
async def voices(request: Request) -> TheirVoices:
    """Every voice."""
    return TheirVoices(voices=await _all(request))


@router.get("/v2/voices")
async def voice_page(
    request: Request,
    search: Annotated[str, Query(max_length=200)] = "",
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 10,
    next_page_token: Annotated[str | None, Query(max_length=20)] = None,
    category: Annotated[str | None, Query(max_length=50)] = None,
    sort_direction: Literal["asc", "desc"] = "asc",
    voice_ids: Annotated[list[str] | None, Query(max_length=MAX_PAGE)] = None,
) -> VoicePage:
    """The voices whose names or labels contain all words of `search`, page by page."""
    words = search.lower().split()
    found = [
        voice
        for voice in await _all(request)
        if all(word in _searched(voice) for word in words)
        and category in (None, voice.category)
        and (not voice_ids or voice.voice_id in voice_ids)
    ]
    if sort_direction == "desc":
        found.reverse()
    begin = _offset(next_page_token)
    end = begin + page_size
    more = end < len(found)
    return VoicePage(
        voices=found[begin:end], has_more=more, total_count=len(found), next_page_token=str(end) if more else None
    )


@router.get("/v1/voices/{voice_id:path}")
async def voice(voice_id: VoiceName, request: Request) -> TheirVoice:
    """One voice."""
    book = get_services(request).voices
    await book.refresh()
    return _voice(book.info(stock_voices.ours(voice_id, book)))


@router.get("/v1/user")
async def user() -> User:
    """An account without limits."""
    return User()


@router.get("/v1/user/subscription")
async def subscription() -> Subscription:
    """A subscription without limits."""
    return User().subscription


async def models(request: Request) -> list[TheirModel]:
    """Names for Kokoro v1.0, as is any other; then the models of MODELS_PATH."""
    services = get_services(request)
    others = services.models.models if services.models else {}
    spoken = dict.fromkeys(MODELS, languages.LANGUAGES) | {
        name: model.folder.card.spoken for name, model in others.items()
    }
    return [
        TheirModel(
            model_id=name,
            name=name,
            maximum_text_length_per_request=services.settings.max_text_length,
            languages=[ModelLanguage(language_id=known.code, name=known.name) for known in known_languages],
        )
        for name, known_languages in spoken.items()
    ]


models_router = APIRouter(tags=["ElevenLabs"])
models_router.add_api_route("/v1/models", models)
keyed_models_router = APIRouter(route_class=KeyedRoute)
keyed_models_router.add_api_route("/v1/models", models)


async def _all(request: Request) -> list[TheirVoice]:
    return [_voice(info) for info in await known_voices(get_services(request))]


def _voice(info: VoiceInfo) -> TheirVoice:
    language = languages.of_voice(info.language)
    labels = {"language": language.code.partition("-")[0], "accent": language.name, "gender": info.gender}
    return TheirVoice(voice_id=info.name, name=info.title, labels=labels, description=f"{language.name}, {info.gender}")


def _searched(voice: TheirVoice) -> str:
    return " ".join((voice.voice_id, voice.name, *voice.labels.values())).lower()


def _offset(token: str | None) -> int:
    if token is None:
        return 0
    if not token.isascii() or not token.isdigit():
        raise InvalidInput(f"unknown next_page_token {token!r}", field="next_page_token")
    return int(token)
