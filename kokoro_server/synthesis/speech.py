"""The speech that a request asks for: a text with or without markup, turns of a dialogue, or phonemes; its script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, ParamSpec, Protocol

from kokoro_server import languages
from kokoro_server.audio.join import LEAD, TAIL, Ends
from kokoro_server.config.defaults import default_language
from kokoro_server.engine import vocab
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import KokoroError
from kokoro_server.languages import Language
from kokoro_server.text import ssml, voice_tags
from kokoro_server.text.options import DEFAULT_OPTIONS, ReadingOptions
from kokoro_server.text.pauses import Pause, Pauses
from kokoro_server.text.script import Cast, Delivery, KnownVoices, Run, Script, runs
from kokoro_server.text.traced import Traced

P = ParamSpec("P")
Level = Literal["even", "own"]  # all voices equally loud, or each as loud as it is

BETWEEN_TURNS = "\n"  # the texts of turns are joined by it
TURN_PAUSE = 0.4  # seconds
SHORT_TEXT = 2_000  # characters, in which there cannot be many speakers: a longer text is parsed in a thread


@dataclass(frozen=True, slots=True)
class Turn:
    """The words of one speaker. Fields that are None are as for the whole dialogue."""

    text: str
    voice: str | None = None
    language: str | None = None
    speed: float | None = None
    pitch: float | None = None  # semitones
    volume: float | None = None  # dB


@dataclass(frozen=True, slots=True)
class Speech:
    """A text, turns or phonemes, and how to say them. Without `language` it is the voice's own."""

    voice: str
    text: str | None = None
    phonemes: str | None = None
    language: str | None = None
    speed: float = 1.0
    pitch: float = 0.0  # semitones
    seed: int = 0
    reading: ReadingOptions = DEFAULT_OPTIONS
    ssml: bool = False  # the text is SSML
    turns: tuple[Turn, ...] = ()
    turn_pause: float = TURN_PAUSE  # seconds of silence between two turns
    volume: float = 0.0  # dB, of the whole; a turn's own is relative to it
    level: Level | None = None  # None: even, if there are several voices
    voice_aliases: Mapping[str, str] = field(default_factory=dict)  # other names for voices
    alias_rates: Mapping[str, float] = field(default_factory=dict)  # of aliases whose voices have a pace of their own
    voice_tags: bool = True  # `[voice:…]` in the text changes the voice
    rate_tags: bool = False  # `[rate:…]` changes the speed
    trim: bool = True  # without it, the audio has the model's own ends
    lead: float | None = None  # seconds before the first sound; None: LEAD
    tail: float | None = None  # seconds after the last one; None: TAIL
    pauses: Mapping[str, float] = field(default_factory=dict)  # seconds, by the names of `Pauses`; else the server's
    quotations_apart: bool = False  # those in another language are read in it
    may_be_silent: bool = False  # a text with nothing to say is a moment of silence, not an error
    model: str | None = None  # that a field of the request names; an unknown name means the server's own
    follows: bool = False  # another speech is heard before it: a sentence's pause is between them

    def ends(self, pauses: Pauses) -> Ends | None:
        """How its audio begins and ends; None: as the model leaves it."""
        if not self.trim:
            return None
        tail = TAIL if self.tail is None else self.tail
        if self.lead is not None:
            return Ends(self.lead, tail)
        return Ends(max(LEAD, pauses.sentence / self.speed - tail) if self.follows else LEAD, tail)

    @property
    def silence(self) -> float:
        """Seconds at its ends that the request asks for."""
        return (self.lead or 0.0) + (self.tail or 0.0)

    @property
    def written(self) -> str:
        """The text that word timings refer to: that of turns is joined by line breaks, that of SSML has its tags."""
        if self.turns:
            return BETWEEN_TURNS.join(turn.text for turn in self.turns)
        return self.text if self.text is not None else self.phonemes or ""

    @property
    def first_voice(self) -> str:
        """The voice that speaks, or begins to."""
        name = self.turns[0].voice if self.turns else None
        return self.voice_aliases.get(name or self.voice, name or self.voice)

    @property
    def subject(self) -> str:
        return "turns" if self.turns else "text" if self.phonemes is None else "phonemes"


def without_foreign_default(speech: Speech, spoken: Collection[Language]) -> Speech:
    """DEFAULT_LANGUAGE is not meant for voices of a model that does not have it."""
    code = speech.language
    if code is None or code != default_language() or languages.is_auto(code) or languages.find(code, spoken) in spoken:
        return speech
    return replace(speech, language=None)


class MeasuredVoices(KnownVoices, Protocol):
    """Voices whose loudness is known."""

    def gain(self, spec: str, /) -> float:
        """dB, that bring a voice or mix to the level of all."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelText:
    """The languages and phonemes of the model that speaks."""

    languages: Sequence[Language] = languages.LANGUAGES
    vocabulary: ModelVocabulary = field(default_factory=vocab.built_in)
    name: str | None = None  # of a model below MODELS_PATH


async def write_script(speech: Speech, voices: MeasuredVoices, model: ModelText | None = None) -> Script:
    """Raises an error that names the place of a wrong tag, attribute or voice."""
    script = await _script(speech, voices, model or ModelText())
    names = {run.delivery.voice for run in runs(script)}
    if speech.level == "own" or (speech.level is None and len(names) == 1):
        return script
    gains = {name: voices.gain(name) for name in names}
    return [
        replace(part, delivery=replace(part.delivery, gain=gains[part.delivery.voice]))
        if isinstance(part, Run)
        else part
        for part in script
    ]


async def _script(speech: Speech, voices: KnownVoices, model: ModelText) -> Script:
    known = model.languages, model.vocabulary
    cast = Cast(voices, speech.language, speech.voice_aliases, speech.alias_rates, *known)
    if speech.turns:
        return await in_thread_if_long(len(speech.written), _turns, speech, cast)
    voice = cast.voice(speech.voice)
    delivery = Delivery(voice, cast.language_of(voice), _speed(speech.voice, speech.speed, cast), speech.pitch)
    if speech.ssml:
        return await asyncio.to_thread(ssml.script, speech.written, delivery, cast)
    run = Run(Traced.of(speech.written), delivery)
    if speech.phonemes is None and _has_tags(speech, speech.written):
        rates = speech.rate_tags
        return await in_thread_if_long(len(speech.written), voice_tags.split, run, cast, speech.speed, rates=rates)
    return [run]


def _has_tags(speech: Speech, text: str) -> bool:
    return speech.voice_tags and voice_tags.has_tags(text, rates=speech.rate_tags)


def _speed(name: str, speed: float, cast: Cast) -> float:
    return voice_tags.speed_at(speed, cast.rates[name]) if name in cast.rates else speed


async def in_thread_if_long(characters: int, write: Callable[P, Script], *args: P.args, **kwargs: P.kwargs) -> Script:
    """Writes a script without blocking the event loop."""
    if characters <= SHORT_TEXT:
        return write(*args, **kwargs)
    return await asyncio.to_thread(write, *args, **kwargs)


def _turns(speech: Speech, cast: Cast) -> Script:
    script, start = list[Run | Pause](), 0
    for number, turn in enumerate(speech.turns):
        run = Run(Traced.of(turn.text, start), _delivery(turn, speech, cast, number))
        if number:
            script.append(Pause(speech.turn_pause))
        if _has_tags(speech, turn.text):
            of_turn = replace(cast, language=turn.language or cast.language)
            speed = speech.speed if turn.speed is None else turn.speed
            script += voice_tags.split(run, of_turn, speed, rates=speech.rate_tags)
        else:
            script.append(run)
        start += len(turn.text) + len(BETWEEN_TURNS)
    return script


def _delivery(turn: Turn, speech: Speech, cast: Cast, number: int) -> Delivery:
    try:
        voice = cast.voice(turn.voice or speech.voice)
        language = languages.parse(turn.language, cast.languages) if turn.language else cast.language_of(voice)
    except KokoroError as error:
        if turn.voice or turn.language:
            error.field = f"turns.{number}.{error.field or 'voice'}"
        raise
    return Delivery(
        voice,
        language,
        _speed(turn.voice or speech.voice, speech.speed if turn.speed is None else turn.speed, cast),
        speech.pitch if turn.pitch is None else turn.pitch,
        0.0 if turn.volume is None else turn.volume - speech.volume,
    )
