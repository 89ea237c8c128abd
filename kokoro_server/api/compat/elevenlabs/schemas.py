"""The queries, bodies and messages of ElevenLabs' clients. Unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kokoro_server import languages
from kokoro_server.api.compat.elevenlabs import output_formats
from kokoro_server.api.compat.openai.schemas import VoiceName
from kokoro_server.api.schemas.script import RepeatedText, few_turns
from kokoro_server.audio.encode import Output
from kokoro_server.config.defaults import BUILT_IN_VOICE, default_language
from kokoro_server.runtime.json import JsonObject
from kokoro_server.text.spoken import KINDS
from kokoro_server.voices import HeldVoice

MAX_NAME = 500  # characters
DEFAULT_INACTIVITY = 20.0  # seconds
MAX_INACTIVITY = 180.0


def _no_dictionaries(value: Any) -> Any:
    if value:
        raise PydanticCustomError("dictionaries", "pronunciation dictionaries are not supported; use LEXICON_PATH")
    return None


def _no_ssml(value: Any) -> Any:
    if value in (True, "true", "1"):
        raise PydanticCustomError("ssml", "must be false: SSML is for whole documents, as POST /tts takes them")
    return False


# A field that would change the sound and is not supported is refused, unless it is empty.
NoDictionaries = Annotated[None, BeforeValidator(_no_dictionaries)]
NoSsml = Annotated[bool, BeforeValidator(_no_ssml)]
Normalization = Literal["auto", "on", "off"]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


class VoiceSettings(BaseModel):
    """The one of ElevenLabs' settings that Kokoro has."""

    speed: float | None = Field(default=None, ge=0.25, le=4, allow_inf_nan=False, examples=[1.0])


class SpeechBody(BaseModel):
    """What to say, and how. ElevenLabs' other fields, such as `stability`, are accepted and change nothing."""

    text: RepeatedText = Field(description="As for POST /tts.", examples=["Hello from Kokoro."])
    model_id: str | None = Field(
        default=None, description="A model of MODELS_PATH; any other name means Kokoro v1.0.", max_length=MAX_NAME
    )
    language_code: str | None = Field(default=None, max_length=20, examples=["en"])
    voice_settings: VoiceSettings | None = None
    seed: Seed | None = None
    apply_text_normalization: Normalization | None = Field(default=None, description="`off`: `normalize` false.")
    pronunciation_dictionary_locators: NoDictionaries = None


class DialogueInput(BaseModel):
    text: RepeatedText = Field(examples=["Did it land?"])
    voice_id: VoiceName = Field(examples=[BUILT_IN_VOICE])


class DialogueBody(BaseModel):
    """Who says what. `settings` and ElevenLabs' other fields are accepted and change nothing."""

    inputs: Annotated[list[DialogueInput], Field(min_length=1), BeforeValidator(few_turns)]
    model_id: str | None = Field(
        default=None, description="A model of MODELS_PATH; any other name means Kokoro v1.0.", max_length=MAX_NAME
    )
    language_code: str | None = Field(default=None, max_length=20, examples=["en"])
    seed: Seed | None = None
    apply_text_normalization: Normalization | None = Field(default=None, description="`off`: `normalize` false.")
    pronunciation_dictionary_locators: NoDictionaries = None


class SocketQuery(BaseModel):
    """The query of a WebSocket."""

    voice_id: VoiceName
    model_id: str | None = Field(default=None, max_length=MAX_NAME)
    output_format: str = output_formats.DEFAULT
    language_code: str | None = Field(default=None, max_length=20)
    seed: Seed | None = None
    apply_text_normalization: Normalization | None = None
    enable_ssml_parsing: NoSsml = False
    sync_alignment: bool = False
    auto_mode: bool = False
    inactivity_timeout: float = Field(default=DEFAULT_INACTIVITY, gt=0, le=MAX_INACTIVITY, allow_inf_nan=False)


class ElevenLabsMessage(BaseModel):
    """A message of a client. The first one's `text` is a space; the last one's, on `/stream-input`, is empty."""

    text: str | None = None
    context_id: str | None = Field(default=None, max_length=MAX_NAME)
    flush: bool | None = None
    close_context: bool | None = None
    close_socket: bool | None = None
    voice_settings: VoiceSettings | None = None
    pronunciation_dictionary_locators: NoDictionaries = None


def request_fields(
    voice: HeldVoice, asked: SpeechBody | DialogueBody | SocketQuery, settings: VoiceSettings | None, output: Output
) -> JsonObject:
    """The fields of a TTSRequest, without the text."""
    fields: JsonObject = {
        "voice": voice.name,
        "language": spoken_language(asked.language_code, voice),
        "format": output.format,
        "sample_rate": output.sample_rate,
        "sample_format": output.sample_format,
        "bit_rate": output.bit_rate,
        "seed": asked.seed or 0,
        "normalize": [] if asked.apply_text_normalization == "off" else list(KINDS),
    }
    if settings and settings.speed is not None:
        fields["speed"] = settings.speed
    return fields


def spoken_language(code: str | None, voice: HeldVoice) -> str | None:
    """ElevenLabs' codes have no region: `en` means British English for a British voice."""
    if not code:
        return default_language()
    if languages.of_voice(voice.language).code.partition("-")[0] == code.lower():
        return None
    return code


class CharacterAlignment(BaseModel):
    characters: list[str]
    character_start_times_seconds: list[float]
    character_end_times_seconds: list[float]


class AudioWithTimestamps(BaseModel):
    audio_base64: str
    alignment: CharacterAlignment | None
    normalized_alignment: CharacterAlignment | None


class VoiceSegment(BaseModel):
    """The characters of a turn, and when it is spoken."""

    voice_id: str
    start_time_seconds: float
    end_time_seconds: float
    character_start_index: int = Field(description="In `alignment`.")
    character_end_index: int
    dialogue_input_index: int


class DialogueWithTimestamps(AudioWithTimestamps):
    voice_segments: list[VoiceSegment]
