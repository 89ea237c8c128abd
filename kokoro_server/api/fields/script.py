"""A text, with or without markup, or a dialogue: what is said, and by whom."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kokoro_server.api.fields.strict import StrictRequest
from kokoro_server.audio.limiter import MAX_DB, MIN_DB
from kokoro_server.speech import TURN_PAUSE, Turn
from kokoro_server.text.pauses import MAX_SECONDS

MAX_TURNS = 1_000
MAX_ALIASES = 100

VoiceSpec = Annotated[
    str,
    Field(
        description="A name of GET /voices, or a blend such as `af_bella(2)+af_sky(1)`.",
        max_length=500,
        examples=["af_heart"],
    ),
]
LanguageCode = Annotated[
    str,
    Field(
        description="en-US, en-GB, es, fr-FR, hi, it, pt-BR, ja or zh. Absent: the voice's own language.",
        max_length=20,
        examples=["en-US"],
    ),
]
Speed = Annotated[
    float, Field(description="1 is the voice's own pace.", ge=0.25, le=4, allow_inf_nan=False, examples=[1.0])
]
Pitch = Annotated[
    float,
    Field(description="Semitones up or down; the timing stays.", ge=-12, le=12, allow_inf_nan=False, examples=[0.0]),
]
Volume = Annotated[
    float,
    Field(description="dB louder or softer; never clips.", ge=MIN_DB, le=MAX_DB, allow_inf_nan=False, examples=[0.0]),
]


class TurnRequest(StrictRequest):
    """What one speaker says. A field that is absent is as for the whole request."""

    text: Annotated[str, Field(description="As `text` of the request.", examples=["Who is there?"])]
    voice: VoiceSpec | None = None
    language: LanguageCode | None = None
    speed: Speed | None = None
    pitch: Pitch | None = None
    volume: Volume | None = None

    def turn(self) -> Turn:
        return Turn(self.text, self.voice, self.language, self.speed, self.pitch, self.volume)


def _few_turns(value: Any) -> Any:
    """Checked first: each of a million turns that are wrong would be complained about."""
    if isinstance(value, list) and len(value) > MAX_TURNS:
        raise PydanticCustomError("too_many_turns", "at most {limit} turns are allowed", {"limit": MAX_TURNS})
    return value


class ScriptFields(BaseModel):
    """What a text may be, and who may speak it."""

    ssml: Annotated[
        bool, Field(description="The text is an SSML document, `<speak>…</speak>`. Offsets of words are in it.")
    ] = False
    turns: Annotated[
        list[TurnRequest] | None,
        BeforeValidator(_few_turns),
        Field(
            description="A dialogue, instead of `text`. Offsets of words are in the texts of all turns, joined by "
            "single line breaks.",
            min_length=1,
            examples=[[{"voice": "af_heart", "text": "Who is there?"}, {"voice": "bm_george", "text": "A friend."}]],
        ),
    ] = None
    turn_pause: Annotated[
        float,
        Field(
            description="Seconds of silence between two turns.",
            ge=0,
            le=MAX_SECONDS,
            allow_inf_nan=False,
            examples=[TURN_PAUSE],
        ),
    ] = TURN_PAUSE
    voice_aliases: Annotated[
        dict[Annotated[str, Field(max_length=100)], VoiceSpec] | None,
        Field(
            description="Names of your own for voices and blends, for `voice`, `[voice:…]`, `turns` and SSML.",
            max_length=MAX_ALIASES,
            examples=[{"narrator": "bm_george"}],
        ),
    ] = None

    def spoken_turns(self) -> tuple[Turn, ...]:
        return tuple(turn.turn() for turn in self.turns or ())
