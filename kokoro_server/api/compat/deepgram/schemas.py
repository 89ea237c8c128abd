"""The query parameters and the messages of Deepgram's `speak`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.deepgram import voices
from kokoro_server.api.compat.lenient import LenientDelivery, LenientRequest
from kokoro_server.api.compat.openai.schemas import VoiceName
from kokoro_server.api.schemas.script import lowercase
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.audio.formats import Format
from kokoro_server.audio.resample import MAX_RATE, MIN_RATE
from kokoro_server.audio.wav import SampleFormat
from kokoro_server.config.defaults import default_voice, speech_defaults
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import InvalidInput, NotSupported
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.services import Services

SAMPLES: dict[str, SampleFormat] = {"linear16": "pcm_s16le", "mulaw": "pcm_mulaw", "alaw": "pcm_alaw"}
TELEPHONY = ("mulaw", "alaw")
TELEPHONY_RATE = 8_000  # Hz, where none is asked for
MIN_SPEED, MAX_SPEED = 0.25, 4

SpeakEncoding = Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"]
SpeakContainer = Literal["none", "wav", "ogg"]

# Our format for each encoding and container. The first container of an encoding is its default.
FORMATS: dict[SpeakEncoding, dict[SpeakContainer, Format]] = {
    "linear16": {"wav": "wav", "none": "pcm"},
    "mulaw": {"wav": "wav", "none": "pcm"},
    "alaw": {"wav": "wav", "none": "pcm"},
    "mp3": {"none": "mp3"},
    "opus": {"ogg": "opus"},
    "flac": {"none": "flac"},
    "aac": {"none": "aac"},
}
# The first encoding and container of each format.
BY_FORMAT: dict[Format, tuple[SpeakEncoding, SpeakContainer]] = {
    format: (encoding, container)
    for encoding, containers in reversed(FORMATS.items())
    for container, format in containers.items()
}


class SpeakParameters(BaseModel):
    """The parameters of both forms. Unknown ones are ignored: `tag` and `mip_opt_out` mean nothing here."""

    model: VoiceName = Field(
        default_factory=default_voice,
        description="A name of GET /voices, a blend, a model of MODELS_PATH, or a name of Deepgram's, for which our "
        "nearest voice speaks.",
    )
    sample_rate: int | None = Field(
        default=None, description="Hz. Absent: 24000, of mulaw and alaw 8000.", ge=MIN_RATE, le=MAX_RATE
    )
    speed: float = Field(default=1.0, ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)
    expressivity: int = Field(default=0, description="Of `/v2/speak`. Only 0: Kokoro has one way to speak.")

    async def spoken_by(self, services: Services) -> JsonObject:
        """A name of Deepgram's has a language, so that DEFAULT_LANGUAGE is not meant."""
        if self.expressivity:
            raise NotSupported("expressivity must be 0: Kokoro has one way to speak", field="expressivity")
        voice = await voices.ours(self.model, services)
        return {"voice": voice} if voice == self.model else {"voice": voice, "language": None}

    def rate(self, encoding: str) -> int:
        return self.sample_rate or (TELEPHONY_RATE if encoding in TELEPHONY else SAMPLE_RATE)


class FileParameters(SpeakParameters):
    encoding: Annotated[SpeakEncoding | None, BeforeValidator(lowercase), Field(description="Absent: mp3.")] = None
    container: Annotated[
        SpeakContainer | None,
        BeforeValidator(lowercase),
        Field(description="Absent: wav for linear16, mulaw and alaw, ogg for opus."),
    ] = None
    bit_rate: int | None = Field(default=None, description="Bits a second, of mp3 and opus.", ge=1)
    callback: str | None = Field(default=None, description="Not supported.")

    async def to_tts_request(self, text: str, services: Services) -> TTSRequest:
        """Raises KokoroError for parameters that are not possible."""
        if self.callback is not None:
            raise NotSupported("callback is not supported; the answer is the audio", field="callback")
        encoding, container = self.encoding or "mp3", self.container
        names_format = self.encoding or container or self.bit_rate
        if not names_format and (format := speech_defaults.get().format):
            encoding, container = BY_FORMAT[format]
        containers = FORMATS[encoding]
        container = container or next(iter(containers))
        if container not in containers:
            allowed = " or ".join(containers)
            raise InvalidInput(f"container must be {allowed} for {encoding}, not {container}", field="container")
        return LenientRequest(
            text=text,
            **await self.spoken_by(services),
            speed=self.speed,
            format=containers[container],
            sample_rate=self.rate(encoding),
            sample_format=SAMPLES.get(encoding, "pcm_s16le"),
            bit_rate=self.bit_rate,
        )


class SocketParameters(SpeakParameters):
    encoding: Annotated[Literal["linear16", "mulaw", "alaw"], BeforeValidator(lowercase)] = "linear16"
    container: Annotated[Literal["none"], BeforeValidator(lowercase)] = "none"
    bit_rate: int | None = None

    async def delivery(self, services: Services) -> DeliveryOptions:
        """Raises KokoroError for parameters that are not possible."""
        if self.bit_rate is not None:
            raise NotSupported("bit_rate is for mp3 and opus, by HTTP; leave it out", field="bit_rate")
        return LenientDelivery(
            **await self.spoken_by(services),
            speed=self.speed,
            sample_rate=self.rate(self.encoding),
            sample_format=SAMPLES[self.encoding],
        )


class SpeakBody(BaseModel):
    text: str = Field(description="What to say, as for POST /tts.", examples=["Hello from Kokoro."])


class DeepgramMessage(BaseModel):
    """`Speak` has a text. An unknown type is answered with a warning."""

    type: str = Field(max_length=100)
    text: str | None = None
