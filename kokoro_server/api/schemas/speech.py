"""The request and response bodies of speech and reading."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from kokoro_server.api.schemas.script import (
    LANGUAGE,
    MAX_FIELDS,
    PITCH,
    SPEED,
    VOICE,
    VOLUME,
    ScriptFields,
    StrictRequest,
    lowercase,
)
from kokoro_server.audio.encode import Output
from kokoro_server.audio.formats import CONTAINERS, Format
from kokoro_server.audio.join import LEAD, TAIL
from kokoro_server.audio.render import Rendering
from kokoro_server.audio.resample import MAX_RATE, MIN_RATE
from kokoro_server.audio.wav import SampleFormat
from kokoro_server.config.defaults import BUILT_IN_VOICE, default_language, default_voice, speech_defaults
from kokoro_server.config.kinds import LONGEST_PAUSE
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.phonemes import VisemeSet, visemes
from kokoro_server.synthesis.speech import Level, Speech
from kokoro_server.synthesis.utterance import Segment
from kokoro_server.text.options import CodeReading, OnUnspeakable, ReadingOptions
from kokoro_server.text.spoken import KINDS

TEXT_OR_PHONEMES = "text_or_phonemes"
MAX_LEXICON = 1_000  # entries
MAX_END = 10.0  # seconds of silence before or after speech
END: Any = Field(ge=0, le=MAX_END, allow_inf_nan=False)
DEFAULT_LANGUAGE: Any = Field(default_factory=default_language, json_schema_extra={"default": None})
PAUSE: Any = Field(ge=0, le=LONGEST_PAUSE, allow_inf_nan=False)


def _default_voice(data: dict[str, Any]) -> str:
    """That of the request's language, which is validated before the voice."""
    return default_voice(data.get("language"))


def default_format(protocol: Format) -> Any:
    """The field of a format that is DEFAULT_FORMAT if it is absent, else the one of the protocol."""
    return Field(
        default_factory=lambda: speech_defaults.get().format or protocol, json_schema_extra={"default": protocol}
    )


DEFAULT_VOICE: Any = Field(default_factory=_default_voice, json_schema_extra={"default": BUILT_IN_VOICE})


AnyCaseFormat = Annotated[Format, BeforeValidator(lowercase)]


def _kinds(value: Any) -> Any:
    """`true` is all kinds, `false` none."""
    if isinstance(value, bool):
        return list(KINDS) if value else []
    if isinstance(value, list) and len(value) <= MAX_FIELDS and all(kind in KINDS for kind in value):
        return value
    raise PydanticCustomError("kinds", "must be true, false or a list of kinds: {kinds}", {"kinds": ", ".join(KINDS)})


class ReadingFields(BaseModel):
    """How a text is put in words."""

    language: Annotated[str | None, LANGUAGE] = None
    normalize: Annotated[
        list[str],
        BeforeValidator(_kinds),
        Field(
            description="Kinds of text that are put in words before they are spoken, such as numbers, dates, money and "
            "Markdown: all (`true`), none (`false`), or a list.",
            examples=[True],
        ),
        WithJsonSchema(
            {
                "anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string", "enum": list(KINDS)}}],
                "default": True,
            }
        ),
    ] = list(KINDS)
    code_blocks: CodeReading = Field(
        default="speak", description="Fenced blocks of code: `speak` or `skip` them, or `announce` each."
    )
    code_spans: CodeReading = Field(default="speak", description="The same for code within a line, between backticks.")
    lexicon: dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=500)]] | None = Field(
        default=None,
        description="How words are said, before the server's own lexicon: `/phonemes/` or another spelling.",
        max_length=MAX_LEXICON,
        examples=[{"nginx": "engine x", "Kokoro": "/kˈOkəɹO/"}],
    )
    unspeakable: OnUnspeakable | None = Field(
        default=None,
        description="Letters that the language cannot say: `refuse` is an error that names them; `skip` leaves "
        "them out and counts them in X-Skipped-Characters. Absent: the server's setting UNSPEAKABLE.",
    )

    def reading_options(self) -> ReadingOptions:
        return ReadingOptions(
            kinds=frozenset(self.normalize),
            code_blocks=self.code_blocks,
            code_spans=self.code_spans,
            lexicon=self.lexicon,
            name_signs=True,
            unspeakable=self.unspeakable,
        )


def _check_one_of(request: ScriptFields, *fields: str) -> None:
    """Raises an error unless exactly one of the fields is given; with `ssml` it must be the text."""
    if sum(getattr(request, name) is not None for name in fields) != 1:
        allowed = f"{', '.join(fields[:-1])} or {fields[-1]}"
        raise PydanticCustomError(TEXT_OR_PHONEMES, "give exactly one of {fields}", {"fields": allowed})
    if request.ssml and getattr(request, fields[0]) is None:
        raise PydanticCustomError(TEXT_OR_PHONEMES, "ssml needs text, which is not given")


class PauseFields(StrictRequest):
    """Seconds at speed 1. An absent one is the server's."""

    comma: Annotated[float | None, PAUSE] = Field(default=None, examples=[0.3])
    semicolon: Annotated[float | None, PAUSE] = Field(default=None, description="Also `:` and `—`.", examples=[0.48])
    sentence: Annotated[float | None, PAUSE] = Field(default=None, examples=[0.4])
    paragraph: Annotated[float | None, PAUSE] = Field(
        default=None, description="Where a blank line is.", examples=[0.75]
    )


class SilenceFields(BaseModel):
    """The silence at the ends of the audio, and between its parts."""

    trim: bool = Field(
        default=True,
        description="`false`: the model's own silence at both ends, about a third of a second and half a second. "
        "`lead` and `tail` then have no effect.",
        examples=[True],
    )
    lead: Annotated[float | None, END] = Field(
        default=None, description=f"Seconds of silence before the first sound. Absent: {LEAD:g}.", examples=[LEAD]
    )
    tail: Annotated[float | None, END] = Field(
        default=None, description=f"Seconds of silence after the last sound. Absent: {TAIL:g}.", examples=[TAIL]
    )
    pauses: PauseFields | None = Field(
        default=None,
        description="Seconds between two parts of speech, by what is written between them. `sentence` and "
        "`paragraph` hold everywhere; `comma` and `semicolon` only where a long sentence is spoken in parts.",
        examples=[{"sentence": 0.6, "paragraph": 1.0}],
    )

    def silences(self) -> dict[str, Any]:
        """These fields, as `Speech` has them."""
        pauses = self.pauses.model_dump(exclude_none=True) if self.pauses else {}
        return {"trim": self.trim, "lead": self.lead, "tail": self.tail, "pauses": pauses}


class SpeechRequest(StrictRequest, ReadingFields, ScriptFields, SilenceFields):
    """The text and how to speak it."""

    text: str | None = Field(
        default=None,
        description="What to say. `[pause:1.5s]` is silence; `[Kokoro](/kˈOkəɹO/)` gives a word's phonemes; from "
        "`[voice:bm_george]` to `[/voice]` another voice speaks. With `ssml`, an SSML document.",
        examples=["Hello from Kokoro."],
    )
    phonemes: str | None = Field(
        default=None,
        description="Kokoro's phonemes, instead of `text`.",
        max_length=100_000,
        examples=["həlˈO wˈɜɹld."],
    )
    language: Annotated[str | None, LANGUAGE] = DEFAULT_LANGUAGE
    voice: Annotated[str, VOICE] = DEFAULT_VOICE
    speed: Annotated[float, SPEED] = 1.0
    pitch: Annotated[float, PITCH] = 0.0
    volume: Annotated[float, VOLUME] = 0.0
    level: Level | None = Field(
        default=None,
        description="`even` makes all voices equally loud; with `own` each is as loud as it is. Absent: `even` if the "
        "request has several voices, else `own`.",
        examples=["even"],
    )
    seed: int = Field(
        default=0,
        description="The same seed gives the same audio, clip or stream, alone or beside any other requests.",
        ge=0,
        le=2**63 - 1,
        examples=[0],
    )
    sample_rate: int = Field(
        default=SAMPLE_RATE,
        description="Hz. Some formats hold only some rates.",
        ge=MIN_RATE,
        le=MAX_RATE,
        examples=[SAMPLE_RATE],
    )
    sample_format: SampleFormat = Field(
        default="pcm_s16le",
        description="For wav and pcm: 16-bit whole numbers, 32-bit floats, or telephony's 8-bit μ-law or A-law.",
    )
    bit_rate: int | None = Field(
        default=None, description="For mp3 (constant) and opus (on average): bits a second.", ge=1, examples=[128_000]
    )
    optimize_for_latency: bool = Field(
        default=False,
        description="Skip the batching window, as streams do: sooner, at the cost of other requests.",
        examples=[False],
    )
    format: Annotated[
        Format | Literal["srt", "vtt"],
        BeforeValidator(lowercase),
        Field(description="Of the audio in the answer; `srt` and `vtt`: no audio."),
    ] = default_format("wav")

    @model_validator(mode="after")
    def _one_of_text_and_phonemes(self) -> Self:
        _check_one_of(self, "text", "turns", "phonemes")
        return self

    def speech(self) -> Speech:
        return Speech(
            ssml=self.ssml,
            turns=self.spoken_turns(),
            turn_pause=self.turn_pause,
            volume=self.volume,
            level=self.level,
            voice_aliases=self.voice_aliases or {},
            text=self.text,
            phonemes=self.phonemes,
            voice=self.voice,
            language=self.language,
            speed=self.speed,
            pitch=self.pitch,
            seed=self.seed,
            reading=self.reading_options(),
            **self.silences(),
        )

    def rendering(self) -> Rendering:
        """Returns how to encode the samples. Raises InvalidInput for a sample rate that the format cannot hold."""
        format: Format = "wav" if self.format == "srt" or self.format == "vtt" else self.format
        output = Output(format, self.sample_rate, self.sample_format, self.bit_rate)
        output.check()
        return Rendering(output, self.volume)


class TTSRequest(SpeechRequest):
    """A clip to be spoken."""

    format: Annotated[AnyCaseFormat, Field(description=f"`pcm` is bare samples; {CONTAINERS}.")] = default_format("wav")


class BatchRequest(StrictRequest):
    """Clips for one zip file. A wrong clip fails alone."""

    requests: list[Any] = Field(
        min_length=1,
        description="Each as for POST /tts.",
        json_schema_extra={"items": {"$ref": "#/components/schemas/TTSRequest"}},
        examples=[[{"text": "One.", "voice": "af_heart"}, {"text": "Two.", "voice": "am_adam", "format": "mp3"}]],
    )


class TimingFields(BaseModel):
    """The times that come with the audio."""

    timings: Literal["words", "phonemes"] = Field(
        default="words", description="`phonemes`: of each word and of each of its phonemes."
    )
    visemes: VisemeSet | None = Field(
        default=None,
        description="Shapes of the mouth: the 15 of Oculus, which most avatars have, or the 22 of Azure.",
        examples=["oculus"],
    )

    def sound_times(self, spoken: Clip | Segment) -> dict[str, list[JsonObject]]:
        """The phonemes and visemes that are asked for, by the name of their list."""
        times = dict[str, list[JsonObject]]()
        if self.timings == "phonemes":
            times["phonemes"] = [asdict(phoneme) for phoneme in spoken.phonemes]
        if self.visemes:
            times["visemes"] = [asdict(each) for each in visemes(spoken.phonemes, self.visemes)]
        return times


class CaptionedRequest(SpeechRequest, TimingFields):
    """A clip with the time of each word, or only its subtitles."""

    @model_validator(mode="after")
    def _no_sounds_in_subtitles(self) -> Self:
        asked = "visemes" if self.visemes else "timings" if self.timings == "phonemes" else None
        if asked and self.format in ("srt", "vtt"):
            message = "subtitles have no {asked}; leave {asked} out, or choose a format of audio"
            raise PydanticCustomError("subtitles", message, {"asked": asked})
        return self


class ReadingRequest(StrictRequest, ReadingFields, ScriptFields):
    """A text whose reading is wanted."""

    text: str | None = Field(default=None, description="As for POST /tts.", examples=["Dr. Ng paid $5 on 3/4/2025."])
    language: Annotated[str | None, LANGUAGE] = DEFAULT_LANGUAGE
    voice: Annotated[
        str,
        Field(
            description="Without `language`, the text is read in its language.",
            max_length=500,
            examples=[BUILT_IN_VOICE],
        ),
    ] = DEFAULT_VOICE

    @model_validator(mode="after")
    def _one_of_text_and_turns(self) -> Self:
        _check_one_of(self, "text", "turns")
        return self

    def speech(self) -> Speech:
        return Speech(
            text=self.text,
            ssml=self.ssml,
            turns=self.spoken_turns(),
            voice_aliases=self.voice_aliases or {},
            voice=self.voice,
            language=self.language,
            reading=self.reading_options(),
        )
