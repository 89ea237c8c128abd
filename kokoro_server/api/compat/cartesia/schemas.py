"""The request bodies and messages of Cartesia's API."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kokoro_server import languages
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.lenient import LenientDelivery, LenientRequest
from kokoro_server.api.compat.openai.schemas import VoiceName
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.audio.formats import Format
from kokoro_server.audio.limiter import MAX_DB, MIN_DB
from kokoro_server.audio.resample import MAX_RATE, MIN_RATE
from kokoro_server.audio.wav import SampleFormat
from kokoro_server.config.defaults import default_language
from kokoro_server.errors import InvalidInput, NotSupported, UnknownLanguage, UnknownVoice
from kokoro_server.languages import Language
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import HeldVoice

SPEEDS = {"slow": 0.8, "normal": 1.0, "fast": 1.25}
FORMATS: dict[str, Format] = {"raw": "pcm", "wav": "wav", "mp3": "mp3"}
MAX_BUFFER_DELAY = 5_000  # ms
DEFAULT_BUFFER_DELAY = 3_000  # ms

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  # the form of Cartesia's voice ids

SampleRate = Annotated[int, Field(description="Hz.", ge=MIN_RATE, le=MAX_RATE, examples=[24_000])]


class SamplesFormat(BaseModel):
    container: Literal["raw", "wav"]
    encoding: SampleFormat
    sample_rate: SampleRate


class Mp3Format(BaseModel):
    container: Literal["mp3"]
    sample_rate: SampleRate
    bit_rate: int | None = Field(default=None, description="Bits a second.", ge=1, examples=[128_000])


class GenerationConfig(BaseModel):
    speed: float = Field(default=1.0, ge=0.25, le=4, allow_inf_nan=False)
    volume: float = Field(default=1.0, ge=10 ** (MIN_DB / 20), le=10 ** (MAX_DB / 20), allow_inf_nan=False)
    emotion: str | None = Field(default=None, description="Only `neutral`.", max_length=100)


def _without_controls(value: Any) -> Any:
    """Of earlier versions of Cartesia's API."""
    for name in ("__experimental_controls", "experimental_controls"):
        if isinstance(value, dict) and value.get(name):
            raise PydanticCustomError("controls", "{name} are not supported; use generation_config", {"name": name})
    return value


class Generation(BaseModel):
    """A transcript and how to speak it.

    Fields that do not change the sound, such as `save` and `use_normalized_timestamps`, are ignored.
    """

    model_id: str = Field(
        default="kokoro", description="A model of MODELS_PATH; any other name means Kokoro v1.0.", max_length=200
    )
    transcript: str = Field(description="What to say, as for POST /tts.", examples=["Hello from Kokoro."])
    voice: Annotated[VoiceName, BeforeValidator(_without_controls)] = Field(
        description='A name of GET /voices or a blend, or `{"id": …}` of one.', examples=["af_heart"]
    )
    output_format: SamplesFormat | Mp3Format = Field(discriminator="container")
    language: str | None = Field(default=None, max_length=20, examples=["en"])
    locale: str | None = Field(default=None, max_length=20)
    generation_config: GenerationConfig | None = None
    speed: Literal["slow", "normal", "fast"] | None = None
    normalization: str | None = Field(default=None, description="`off`: nothing is put in words.", max_length=20)
    add_timestamps: bool | None = Field(default=False, description="Send the time of each word.")
    add_phoneme_timestamps: bool | None = Field(default=False, description="Send the time of each phoneme.")
    pronunciation_dict_id: str | None = Field(default=None, description="Not supported.")
    duration: float | None = Field(default=None, description="Not supported.")
    context_id: str | None = Field(default=None, max_length=200)

    async def to_tts_request(self, services: Services) -> TTSRequest:
        """Raises KokoroError for fields that are not possible."""
        return LenientRequest(text=self.transcript, **await self._fields(services))

    async def delivery(self, services: Services) -> DeliveryOptions:
        """How to speak in a conversation. Raises KokoroError for fields that are not possible."""
        self.require_raw()
        return LenientDelivery(**await self._fields(services))

    def require_raw(self) -> None:
        """Raises InvalidInput unless the audio is bare samples, as messages carry them."""
        if self.output_format.container != "raw":
            raise InvalidInput("output_format: container must be raw here", field="output_format.container")

    async def _fields(self, services: Services) -> JsonObject:
        self._refuse_unsupported()
        voice = await self._voice(services)
        config = self.generation_config or GenerationConfig()
        output = self.output_format
        return {
            "voice": voice.name,
            "language": self._language(languages.of_voice(voice.language)),
            "speed": SPEEDS[self.speed] if self.speed else config.speed,
            "volume": round(20 * math.log10(config.volume), 6),
            "format": FORMATS[output.container],
            "sample_rate": output.sample_rate,
            **_encoding(output),
            "normalize": self.normalization != "off",
        }

    async def _voice(self, services: Services) -> HeldVoice:
        try:
            name = services.synthesizer.full_name(self.voice, self.model_id)
            return await services.voices.hold(name)
        except UnknownVoice as error:
            if not _UUID.fullmatch(self.voice):
                raise
            # Its dashes make it a blend, of which the message would name only the first part.
            message = f"unknown voice {self.voice!r}; GET /cartesia/voices lists the voices"
            raise UnknownVoice(message, field="voice") from error

    def _language(self, of_voice: Language) -> str | None:
        """None for the voice's own language: another voice in the text then speaks its own."""
        if not (self.locale or self.language):
            return default_language()
        if languages.is_auto(self.locale or self.language):
            return languages.AUTO
        asked = self._asked_language(of_voice)
        return None if asked is of_voice else asked.code

    def _asked_language(self, of_voice: Language) -> Language:
        """A bare `en` means the voice's own English. An unknown region is ignored."""
        code = (self.locale or self.language or "").replace("_", "-")
        base = code.partition("-")[0].lower()
        if base != code.lower():
            try:
                return languages.parse(code, languages.ALL)
            except UnknownLanguage:
                pass
        return of_voice if of_voice.code.partition("-")[0] == base else languages.parse(base, languages.ALL)

    def _refuse_unsupported(self) -> None:
        for field in ("pronunciation_dict_id", "duration"):
            if getattr(self, field):
                raise NotSupported(f"{field} is not supported by this server; leave it out", field=field)
        emotion = self.generation_config and self.generation_config.emotion
        if emotion not in (None, "", "neutral"):
            raise NotSupported("generation_config: this server has no emotion but neutral", field="generation_config")


def _encoding(output: SamplesFormat | Mp3Format) -> JsonObject:
    return {"sample_format": output.encoding} if isinstance(output, SamplesFormat) else {"bit_rate": output.bit_rate}


class SocketCommand(BaseModel):
    """The fields of a message that control its context."""

    context_id: str = Field(min_length=1, max_length=200)
    cancel: bool | None = False
    transcript: str | None = ""
    continue_: bool | None = Field(default=False, alias="continue")
    flush: bool | None = False
    max_buffer_delay_ms: int | None = Field(default=DEFAULT_BUFFER_DELAY, ge=0, le=MAX_BUFFER_DELAY)
