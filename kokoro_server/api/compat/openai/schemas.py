"""The request and response bodies of OpenAI's API, with the fields that Kokoro-FastAPI adds to it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kokoro_server import languages
from kokoro_server.api.compat.lenient import TaggedCaptionedRequest, TaggedRequest
from kokoro_server.api.schemas.script import MAX_ALIASES, SPEED
from kokoro_server.api.schemas.speech import (
    AnyCaseFormat,
    CaptionedRequest,
    ReadingFields,
    SilenceFields,
    TTSRequest,
    default_format,
)
from kokoro_server.assets.models.folder import RESERVED
from kokoro_server.audio.formats import CONTAINERS, Format
from kokoro_server.audio.limiter import MAX_DB, MIN_DB
from kokoro_server.config.defaults import BUILT_IN_VOICE, default_language, default_voice
from kokoro_server.errors import NotSupported, UnknownLanguage
from kokoro_server.runtime.json import JsonObject
from kokoro_server.voices import OPENAI_VOICES

MODELS = RESERVED  # the listed names of Kokoro v1.0, as is any that is no model of MODELS_PATH

MAX_VOICE = 500  # characters, of a blend
_VOICE_SCHEMA = {"type": "string", "maxLength": MAX_VOICE}


def _voice_name(value: Any) -> Any:
    return value["id"] if isinstance(value, dict) and "id" in value else value


# The constraint is the string's: then pydantic refuses half of a surrogate pair, too.
VoiceName = Annotated[str, Field(max_length=MAX_VOICE), BeforeValidator(_voice_name)]


def _known_language(letter: str) -> str:
    try:
        return languages.parse(letter, languages.ALL).code if letter and not languages.is_auto(letter) else letter
    except UnknownLanguage as error:
        letters = " ".join(language.letter for language in languages.LANGUAGES)
        raise PydanticCustomError("language", "must be one of {letters}", {"letters": letters}) from error


def _default_voice(data: JsonObject) -> str:
    return default_voice(_language(data.get("language"), data.get("lang_code")))


def _language(language: str | None, lang_code: str | None) -> str | None:
    return language or lang_code or default_language()


class NormalizationOptions(BaseModel):
    """Kokoro-FastAPI's switches for the kinds of text that are put in words."""

    normalize: bool = True
    unit_normalization: bool = True
    url_normalization: bool = True
    email_normalization: bool = True
    optional_pluralization_normalization: bool = True
    phone_normalization: bool = True
    replace_remaining_symbols: bool = True

    def kinds_off(self) -> set[str]:
        """The kinds that are switched off. Raises NotSupported for a switch that has no kind here."""
        if self.url_normalization != self.email_normalization:
            raise NotSupported(
                "normalization_options: url_normalization and email_normalization must be equal; both are `addresses`",
                field="normalization_options",
            )
        if not self.optional_pluralization_normalization:
            raise NotSupported(
                "normalization_options: optional_pluralization_normalization cannot be switched off alone; "
                "`normalize` false switches off all",
                field="normalization_options",
            )
        switches = {
            "units": self.unit_normalization,
            "addresses": self.url_normalization,
            "phones": self.phone_normalization,
            "symbols": self.replace_remaining_symbols,
        }
        return {kind for kind, on in switches.items() if not on}

    def left_of(self, kinds: list[str]) -> list[str]:
        if not self.normalize:
            return []
        off = self.kinds_off()
        return [kind for kind in kinds if kind not in off]


class VoiceAlias(BaseModel):
    """A voice with a pace of its own."""

    voice: VoiceName
    rate: Annotated[float | None, SPEED] = None


AnyAlias = Annotated[
    VoiceAlias,
    BeforeValidator(
        lambda value: {"voice": value} if isinstance(value, str) else value, json_schema_input_type=str | VoiceAlias
    ),
]


class KokoroFastAPIFields(BaseModel):
    """Kokoro-FastAPI's fields beyond OpenAI's."""

    lang_code: Annotated[
        str,
        Field(description="Kokoro-FastAPI's name for `language`: a b e f h i j p z.", max_length=20, examples=["a"]),
        AfterValidator(_known_language),
    ] = ""
    volume_multiplier: float = Field(
        default=1.0,
        description="Louder or softer: 2 is 6 dB more. Never clips.",
        ge=10 ** (MIN_DB / 20),
        le=10 ** (MAX_DB / 20),
        allow_inf_nan=False,
        examples=[1.0],
    )
    normalization_options: NormalizationOptions | None = Field(
        default=None, description="Kokoro-FastAPI's switches for `normalize`, which counts too."
    )
    stream: bool = Field(
        default=True, description="`false`: the whole file at once, with its length. Events are streamed anyway."
    )
    return_timestamps: bool = Field(
        default=False, description="Refused for bare audio; see /dev/captioned_speech and /v1/audio/speech/timestamps."
    )
    download_format: AnyCaseFormat | None = Field(
        default=None, description="Must equal `response_format`: the answer is the download."
    )
    return_download_link: bool = Field(
        default=False,
        description="`true`: the header `X-Download-Path` has the path of the audio below `/v1`, for an hour.",
    )
    ssml: bool = Field(default=False, description="The input is an SSML document, `<speak>…</speak>`.")
    allow_voice_tags: bool | None = Field(
        default=None,
        description="`true`: `[voice:bm_george]` changes the voice, and `[rate:0.8]` the pace of the voice until the "
        "next such tag. `false`: both are read out. Absent: only `[voice:…]` is a tag.",
    )
    voice_aliases: dict[Annotated[str, Field(max_length=100)], AnyAlias] | None = Field(
        default=None,
        description='Names of your own for voices and blends; `{"voice": "af_bella", "rate": 0.8}` speaks slower.',
        max_length=MAX_ALIASES,
    )

    def refuse_link(self, reason: str) -> None:
        """Raises NotSupported if a link is asked for."""
        if self.return_download_link:
            raise NotSupported(f"return_download_link: {reason}", field="return_download_link")

    def refuse_unsupported(self, format: Format) -> None:
        """Raises NotSupported for a field whose promise this server does not keep."""
        if self.download_format not in (None, format):
            reason = "download_format: must equal response_format: the answer is the download"
            raise NotSupported(reason, field="download_format")


class OpenAISpeechRequest(ReadingFields, SilenceFields, KokoroFastAPIFields):
    """A clip to be spoken: OpenAI's fields, Kokoro-FastAPI's and this server's.

    Unknown fields are ignored, as OpenAI's clients keep sending new ones.
    """

    model_config = ConfigDict(extra="ignore")

    input: str = Field(description="What to say; marks such as `[pause:1s]` work too.", examples=["Hello from Kokoro."])
    model: str = Field(
        default=MODELS[0],
        description="A model of the server's MODELS_PATH; any other name means Kokoro v1.0. The log shows the name.",
        max_length=200,
        examples=["tts-1"],
    )
    voice: Annotated[
        VoiceName,
        WithJsonSchema(
            {
                "description": "A name of GET /v1/audio/voices, or a blend such as `af_bella(2)+af_sky(1)`; "
                'or `{"id": name}`. OpenAI\'s names stand for voices of ours: '
                + ", ".join(f"{theirs} {ours}" for theirs, ours in OPENAI_VOICES.items())
                + ".",
                "anyOf": [_VOICE_SCHEMA, {"type": "object", "properties": {"id": _VOICE_SCHEMA}, "required": ["id"]}],
                "default": BUILT_IN_VOICE,
                "examples": ["alloy", BUILT_IN_VOICE],
            }
        ),
    ] = Field(default_factory=_default_voice)
    response_format: Annotated[
        AnyCaseFormat,
        Field(
            description=f"`pcm` is bare 16-bit samples at 24 kHz; {CONTAINERS}. `format` is read too.",
            validation_alias=AliasChoices("response_format", "format"),
        ),
    ] = default_format("mp3")
    speed: Annotated[float, SPEED] = 1.0
    instructions: str | None = Field(
        default=None, description="Accepted and ignored: the model takes none.", examples=["Speak cheerfully."]
    )
    stream_format: Literal["audio", "sse"] = Field(
        default="audio", description="`audio`: the bare file; `sse`: events that carry it in base64."
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

    def to_tts_request(self) -> TTSRequest:
        if self.return_timestamps:
            raise NotSupported(
                "return_timestamps: the answer is bare audio; POST /dev/captioned_speech has the times of words, "
                "and so has POST /v1/audio/speech/timestamps",
                field="return_timestamps",
            )
        return TaggedRequest(**self._fields())

    def to_captioned_request(self) -> CaptionedRequest:
        self.refuse_link("the answer is no audio file")
        return TaggedCaptionedRequest(**self._fields())

    def _fields(self) -> JsonObject:
        self.refuse_unsupported(self.response_format)
        ours = {name: getattr(self, name) for kind in (ReadingFields, SilenceFields) for name in kind.model_fields}
        options = self.normalization_options
        aliases = self.voice_aliases or {}
        return {
            **ours,
            "text": self.input,
            "ssml": self.ssml,
            "voice_aliases": {name: alias.voice for name, alias in aliases.items()} or None,
            "alias_rates": {name: alias.rate for name, alias in aliases.items() if alias.rate is not None},
            "voice_tags": self.allow_voice_tags is not False,
            "rate_tags": bool(self.allow_voice_tags),
            "voice": self.voice,
            "speed": self.speed,
            "format": self.response_format,
            "volume": min(max(20 * math.log10(self.volume_multiplier), MIN_DB), MAX_DB),
            "language": _language(self.language, self.lang_code),
            "normalize": options.left_of(self.normalize) if options else self.normalize,
            "model": self.model,
        }


class OpenAIModel(BaseModel):
    id: str = Field(examples=["tts-1"])
    object: Literal["model"] = "model"
    created: int = Field(default=1_737_936_000, description="Seconds since 1970.")  # Kokoro-82M v1.0's release
    owned_by: str = "hexgrad"


class OpenAIModels(BaseModel):
    object: Literal["list"] = "list"
    data: list[OpenAIModel]


class OpenAIAudioModels(BaseModel):
    models: list[OpenAIModel]


class OpenAIVoice(BaseModel):
    id: str = Field(description="For `voice`.", examples=["alloy"])
    name: str = Field(description="The same: clients of Kokoro-FastAPI expect it.", examples=["alloy"])
    title: str = Field(description="The name to show people.", examples=["Alloy"])
    voice: str = Field(description="The voice of GET /voices that speaks.", examples=["af_alloy"])
    language: str = Field(examples=["en-US"])
    gender: Literal["female", "male"] = Field(examples=["female"])
    installed: bool = Field(default=True, description="Whether this server can read its language.", examples=[True])


class OpenAIVoices(BaseModel):
    voices: list[OpenAIVoice]


class OpenAIVoiceNames(BaseModel):
    voices: list[str] = Field(examples=[["alloy", BUILT_IN_VOICE]])


class OpenAIErrorBody(BaseModel):
    message: str = Field(description="For people: what was wrong and what is allowed.")
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None = Field(description="The request field at fault, if one is.", examples=["voice"])
    code: str = Field(description="Stable, for programs.", examples=["unknown_voice"])


class OpenAIErrorAnswer(BaseModel):
    error: OpenAIErrorBody
