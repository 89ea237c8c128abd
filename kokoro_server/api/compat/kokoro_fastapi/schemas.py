"""The request and response bodies of Kokoro-FastAPI, where they are not OpenAI's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from kokoro_server.api.compat.openai.schemas import OpenAISpeechRequest, VoiceName
from kokoro_server.api.schemas.script import TURN_PAUSE_FIELD, RepeatedText, few_turns
from kokoro_server.config.defaults import BUILT_IN_VOICE, default_language, default_voice
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech import TURN_PAUSE
from kokoro_server.voices import MAX_PARTS

# OpenAI's names of voices that stand for other voices in Kokoro-FastAPI than here.
THEIR_VOICES = {
    "alloy": "am_adam",
    "ash": "af_nicole",
    "coral": "bf_emma",
    "echo": "af_bella",
    "fable": "af_sarah",
    "onyx": "bm_george",
    "nova": "bf_isabella",
    "sage": "am_michael",
    "shimmer": "af_sky",
}


def their_voice(name: str, own: Collection[str]) -> str:
    """Their voice for one of OpenAI's names, unless it is among the names of this server's `own` voices."""
    return name if name in own else THEIR_VOICES.get(name, name)


class _TheirNames(OpenAISpeechRequest):
    def with_their_voices(self, own: Collection[str]) -> Self:
        return self.model_copy(update={"voice": their_voice(self.voice, {*own, *(self.voice_aliases or {})})})


class CaptionedSpeechRequest(_TheirNames):
    """As for `/v1/audio/speech`, but OpenAI's names stand for Kokoro-FastAPI's voices."""

    return_timestamps: bool = Field(default=True, description="`false`: no times of words.")
    stream: bool = Field(default=True, description="`true`: an object a line, as the audio is made.")


class DialogueTurnRequest(BaseModel):
    voice: VoiceName | None = Field(default=None, examples=["af_bella"])
    text: str = Field(examples=["Did it land?"])


class DialogueRequest(_TheirNames):
    """As for `/v1/audio/speech`, with `turns` in place of `input`."""

    input: Literal[""] = ""
    turns: Annotated[list[DialogueTurnRequest], Field(min_length=1), BeforeValidator(few_turns)]
    pause_between_turns: Annotated[float, TURN_PAUSE_FIELD] = TURN_PAUSE

    def with_their_voices(self, own: Collection[str]) -> Self:
        known = {*own, *(self.voice_aliases or {})}
        turns = [
            turn.model_copy(update={"voice": turn.voice and their_voice(turn.voice, known)}) for turn in self.turns
        ]
        return super().with_their_voices(own).model_copy(update={"turns": turns})

    def _fields(self) -> JsonObject:
        turns = [turn.model_dump() for turn in self.turns]
        return super()._fields() | {"text": None, "turns": turns, "turn_pause": self.pause_between_turns}


class WordTimestamp(BaseModel):
    word: str = Field(examples=["Hello"])
    start_time: float = Field(description="Seconds from the start of the audio.", examples=[0.325])
    end_time: float = Field(examples=[0.7])


class CaptionedSpeech(BaseModel):
    audio: str = Field(description="Base64.")
    audio_format: str = Field(examples=["audio/mpeg"])
    timestamps: list[WordTimestamp]


def _blend(value: Any) -> Any:
    if isinstance(value, list) and len(value) <= MAX_PARTS and all(isinstance(name, str) for name in value):
        return "+".join(value)
    if isinstance(value, str):
        return value
    message = "must be a blend such as 'af_bella(2)+af_sky(1)', or a list of at most {limit} voices"
    raise PydanticCustomError("blend", message, {"limit": MAX_PARTS})


Blend = Annotated[
    VoiceName,
    BeforeValidator(_blend),
    WithJsonSchema(
        {
            "description": "A blend, or voices of equal weight.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": MAX_PARTS}],
            "examples": ["af_bella(2)+af_sky(1)"],
        }
    ),
]


class PhonemizeRequest(BaseModel):
    text: str = Field(description="As for POST /tts.", examples=["Hello from Kokoro."])
    language: str = Field(
        default_factory=lambda: default_language() or "a",
        description="a b e f h i j p z, or a code.",
        max_length=20,
        examples=["a"],
    )


class Phonemized(BaseModel):
    phonemes: str = Field(examples=["həlˈO fɹʌm kəkˈɔɹO."])
    tokens: list[int] = Field(description="The model's numbers for them.", examples=[[50, 83, 54]])


class PhonemesRequest(BaseModel):
    phonemes: str = Field(description="As for POST /tts.", max_length=100_000, examples=["həlˈO wˈɜɹld."])
    voice: VoiceName = Field(
        default_factory=default_voice, description="As for `/v1/audio/speech`.", examples=[BUILT_IN_VOICE]
    )


class SsmlRequest(BaseModel):
    text: RepeatedText = Field(description="An SSML document.", examples=['<speak>Hi<break time="1s"/>there.</speak>'])
    voice: VoiceName = Field(default="", description="Who speaks. Absent: no tags of voices and rates are written.")


class SsmlText(BaseModel):
    text: str = Field(description="For `input`, with `allow_voice_tags`.", examples=["Hi[pause:1s]there."])


class SsmlSupport(BaseModel):
    elements: dict[str, str] = Field(description="What becomes of each element.")
    ignored: list[str] = Field(description="Elements whose text alone counts.")
    break_strengths: dict[str, float] = Field(description="Seconds.")
    prosody_rates: dict[str, float]
    rate_range: list[float]
