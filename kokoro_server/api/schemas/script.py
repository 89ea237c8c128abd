"""What speech requests share: the text, with or without markup, or the dialogue, and how to say it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from kokoro_server.audio.limiter import MAX_DB, MIN_DB
from kokoro_server.synthesis.speech import TURN_PAUSE, Turn
from kokoro_server.text.pauses import MAX_SECONDS

MAX_FIELDS = 100  # of a request, known or not
MAX_TURNS = 1_000
MAX_ALIASES = 100

# A text that answers repeat. With a constraint, pydantic refuses half of a surrogate pair, which no answer can hold.
RepeatedText = Annotated[str, Field(min_length=0)]
VOICE: Any = Field(
    description="A name of GET /voices, or a blend such as `af_bella(2)+af_sky(1)`.",
    max_length=500,
    examples=["af_heart"],
)
LANGUAGE: Any = Field(
    description="en-US, en-GB, es, fr-FR, hi, it, pt-BR, ja or zh. Absent: the voice's own language. `auto`: that of "
    "the text, where it is plain, read by a voice of that language.",
    max_length=20,
    examples=["en-US"],
)
SPEED: Any = Field(description="1 is the voice's own pace.", ge=0.25, le=4, allow_inf_nan=False, examples=[1.0])
PITCH: Any = Field(
    description="Semitones up or down; the timing stays.", ge=-12, le=12, allow_inf_nan=False, examples=[0.0]
)
VOLUME: Any = Field(
    description="dB louder or softer; never clips.", ge=MIN_DB, le=MAX_DB, allow_inf_nan=False, examples=[0.0]
)

TURN_PAUSE_FIELD: Any = Field(
    description="Seconds of silence between two turns.",
    ge=0,
    le=MAX_SECONDS,
    allow_inf_nan=False,
    examples=[TURN_PAUSE],
)


def lowercase(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class StrictRequest(BaseModel):
    """A request in which an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, data: Any) -> Any:
        """Reporting each of a million unknown fields would block the event loop for ten seconds."""
        if isinstance(data, dict) and len(data) > MAX_FIELDS:
            raise PydanticCustomError("too_many_fields", "at most {limit} fields are allowed", {"limit": MAX_FIELDS})
        return data


class TurnRequest(StrictRequest):
    """The text of one speaker. An absent field is that of the whole request."""

    text: str = Field(description="As `text` of the request.", examples=["Who is there?"])
    voice: Annotated[str | None, VOICE] = None
    language: Annotated[str | None, LANGUAGE] = None
    speed: Annotated[float | None, SPEED] = None
    pitch: Annotated[float | None, PITCH] = None
    volume: Annotated[float | None, VOLUME] = None

    def turn(self) -> Turn:
        return Turn(self.text, self.voice, self.language, self.speed, self.pitch, self.volume)


def few_turns(value: Any) -> Any:
    """Checked first: pydantic would report each of a million wrong turns."""
    if isinstance(value, list) and len(value) > MAX_TURNS:
        raise PydanticCustomError("too_many_turns", "at most {limit} turns are allowed", {"limit": MAX_TURNS})
    return value


class ScriptFields(BaseModel):
    """The form of the text, and its speakers."""

    ssml: bool = Field(
        default=False,
        description="The text is an SSML document, `<speak>…</speak>`. Offsets of words count its characters.",
        examples=[False],
    )
    turns: Annotated[list[TurnRequest], Field(min_length=1), BeforeValidator(few_turns)] | None = Field(
        default=None,
        description="A dialogue, instead of `text`. Offsets of words count the characters of all turns, joined by "
        "single line breaks.",
        examples=[[{"voice": "af_heart", "text": "Who is there?"}, {"voice": "bm_george", "text": "A friend."}]],
    )
    turn_pause: Annotated[float, TURN_PAUSE_FIELD] = TURN_PAUSE
    voice_aliases: dict[Annotated[str, Field(max_length=100)], Annotated[str, VOICE]] | None = Field(
        default=None,
        description="Your own names for voices and blends, for `voice`, `[voice:…]`, `turns` and SSML.",
        max_length=MAX_ALIASES,
        examples=[{"narrator": "bm_george"}],
    )

    def spoken_turns(self) -> tuple[Turn, ...]:
        return tuple(turn.turn() for turn in self.turns or ())
