"""The request and response bodies of OpenAI's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from kokoro_server.api.schemas import DEFAULT_VOICE, CaptionedRequest, ReadingFields, TTSRequest
from kokoro_server.audio.encode import Format

PREFIX = "/v1/"  # errors on paths below it have OpenAI's shape

MODELS = ("kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")  # all of them are Kokoro-82M

# OpenAI's voice names, and for each the voice of ours that comes nearest.
VOICES = {
    "alloy": "af_alloy",
    "ash": "am_michael",
    "ballad": "bm_george",
    "cedar": "am_fenrir",
    "coral": "af_bella",
    "echo": "am_echo",
    "fable": "bm_fable",
    "marin": "af_heart",
    "nova": "af_nova",
    "onyx": "am_onyx",
    "sage": "af_sarah",
    "shimmer": "af_aoede",
    "verse": "am_puck",
}

# OpenAI's names for those of our fields that it calls otherwise.
_PARAMS = {"text": "input", "format": "response_format"}
_TOO_LONG_OR_INVALID = (413, 422)


def _voice_name(value: Any) -> Any:
    return value["id"] if isinstance(value, dict) and "id" in value else value


class OpenAISpeechRequest(ReadingFields):
    """A clip to be spoken, in OpenAI's words. `language` and what follows it are ours.

    Fields that are not named here are ignored, as nowhere else: OpenAI's clients keep sending new ones.
    """

    model_config = ConfigDict(extra="ignore")

    input: Annotated[
        str, Field(description="What to say; marks such as `[pause:1s]` work too.", examples=["Hello from Kokoro."])
    ]
    model: Annotated[
        str,
        Field(
            description=f"One of {', '.join(MODELS)}: the same model by any name.", max_length=200, examples=["tts-1"]
        ),
    ] = MODELS[0]
    voice: Annotated[
        str,
        BeforeValidator(_voice_name),
        Field(max_length=500),
        WithJsonSchema(
            {
                "description": "A name of GET /v1/audio/voices, or a blend such as `af_bella(2)+af_sky(1)`; "
                'or `{"id": name}`. OpenAI\'s names stand for voices of ours: '
                + ", ".join(f"{theirs} {ours}" for theirs, ours in VOICES.items())
                + ".",
                "anyOf": [
                    {"type": "string", "maxLength": 500},
                    {"type": "object", "properties": {"id": {"type": "string", "maxLength": 500}}, "required": ["id"]},
                ],
                "default": DEFAULT_VOICE,
                "examples": ["alloy", DEFAULT_VOICE],
            }
        ),
    ] = DEFAULT_VOICE
    response_format: Annotated[
        Format, Field(description="`pcm` is bare 16-bit samples at 24 kHz; opus comes in Ogg, aac in ADTS.")
    ] = "mp3"
    speed: Annotated[
        float, Field(description="1 is the voice's own pace.", ge=0.25, le=4, allow_inf_nan=False, examples=[1.0])
    ] = 1.0
    instructions: Annotated[
        str | None, Field(description="Accepted and ignored: the model takes none.", examples=["Speak cheerfully."])
    ] = None
    stream_format: Annotated[
        Literal["audio", "sse"], Field(description="The bare file, or events that carry it in base64.")
    ] = "audio"

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

    def to_tts_request(self) -> TTSRequest:
        return TTSRequest(**self._fields())

    def to_captioned_request(self) -> CaptionedRequest:
        return CaptionedRequest(**self._fields())

    def _fields(self) -> dict[str, Any]:
        reading = {name: getattr(self, name) for name in ReadingFields.model_fields}
        voice = VOICES.get(self.voice, self.voice)
        return {"text": self.input, "voice": voice, "speed": self.speed, "format": self.response_format, **reading}


class OpenAIModel(BaseModel):
    id: Annotated[str, Field(examples=["tts-1"])]
    object: Literal["model"] = "model"
    created: Annotated[int, Field(description="Seconds since 1970.")] = 1_737_936_000  # Kokoro-82M v1.0's release
    owned_by: str = "hexgrad"


class OpenAIModels(BaseModel):
    object: Literal["list"] = "list"
    data: list[OpenAIModel]


class OpenAIVoice(BaseModel):
    id: Annotated[str, Field(description="For `voice`.", examples=["alloy"])]
    name: Annotated[str, Field(description="The name to show people.", examples=["Alloy"])]
    voice: Annotated[str, Field(description="The voice of GET /voices that speaks.", examples=["af_alloy"])]
    language: Annotated[str, Field(examples=["en-US"])]
    gender: Annotated[Literal["female", "male"], Field(examples=["female"])]
    installed: Annotated[bool, Field(description="Whether this server can read its language.", examples=[True])] = True


class OpenAIVoices(BaseModel):
    voices: list[OpenAIVoice]


class OpenAIErrorBody(BaseModel):
    message: Annotated[str, Field(description="For people: what was wrong and what is allowed.")]
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: Annotated[str | None, Field(description="The request field at fault, if one is.", examples=["voice"])]
    code: Annotated[str, Field(description="Stable, for programs.", examples=["unknown_voice"])]


class OpenAIErrorAnswer(BaseModel):
    error: OpenAIErrorBody


def openai_error(status: int, code: str, message: str, field: str | None) -> tuple[int, OpenAIErrorAnswer]:
    """The status and the body with which OpenAI would answer. OpenAI's status for any bad field is 400."""
    if status in _TOO_LONG_OR_INVALID:
        status = 400
    kind: Literal["invalid_request_error", "rate_limit_error", "server_error"] = "invalid_request_error"
    if status >= 500:
        kind = "server_error"
    elif status == 429:
        kind = "rate_limit_error"
    param = _PARAMS.get(field, field) if field else None
    return status, OpenAIErrorAnswer(error=OpenAIErrorBody(message=message, type=kind, param=param, code=code))
