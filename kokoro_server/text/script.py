"""A script: runs of text, each with one delivery, and the pauses between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from kokoro_server import languages
from kokoro_server.engine import vocab
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import InvalidInput
from kokoro_server.languages import Language
from kokoro_server.text import pauses
from kokoro_server.text.pauses import Pause
from kokoro_server.text.spoken import Claim
from kokoro_server.text.traced import Traced

MAX_PARTS = 5_000  # runs and pauses: each run is a row of a batch at least
MAX_VOICES = 32  # different ones: the styles of a mix are half a megabyte


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a run is said."""

    voice: str  # in its one spelling
    language: Language
    speed: float = 1.0
    pitch: float = 0.0  # semitones
    volume: float = 0.0  # dB, beside the volume of the whole
    gain: float | None = None  # dB, that brings the voice to the level of all; None: it keeps its own level


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Text with one delivery. Word times refer to where the characters of `text` came from."""

    text: Traced
    delivery: Delivery
    claims: Sequence[Claim] = ()  # readings that SSML prescribes for parts of the text, in order
    continues: bool = False  # its last sentence goes on in the next run


Script = Sequence[Run | Pause]


class KnownVoices(Protocol):
    """The facts about voices that a script needs."""

    def canonical(self, spec: str, /) -> str:
        """The one spelling of a voice or mix. Raises an error for an unknown one."""

    def language(self, spec: str, /) -> str:
        """Kokoro's letter for the language of a voice."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The voices that may speak: finds the voice of a name, and its language."""

    voices: KnownVoices
    language: str | None = None  # of everything, if one was named
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names for voices
    rates: Mapping[str, float] = field(default_factory=dict)  # by alias: how fast the voice speaks at speed 1
    languages: Sequence[Language] = languages.LANGUAGES  # of the model
    vocabulary: ModelVocabulary = field(default_factory=vocab.built_in)

    def voice(self, name: str) -> str:
        return self.voices.canonical(self.aliases.get(name, name))

    def language_of(self, voice: str) -> Language:
        return languages.of_request(self.language, self.voices.language(voice), self.languages)


def runs(script: Script) -> Iterator[Run]:
    return (part for part in script if isinstance(part, Run))


def check(script: Script, max_silence: float, subject: str = "text") -> None:
    """Raises InvalidInput for more silence, runs or voices than are allowed, and for a malformed pause."""
    silence = sum(
        part.seconds if isinstance(part, Pause) else pauses.total_silence(part.text.text, subject, part.text.starts)
        for part in script
    )
    if silence > max_silence:
        raise InvalidInput(
            f"the pauses add up to {silence:g} s; at most {max_silence:g} s are allowed (MAX_SILENCE)", field=subject
        )
    if len(script) == 1:
        return
    if len(script) > MAX_PARTS:
        raise InvalidInput(
            f"voice and delivery change too often: {len(script)} parts, of at most {MAX_PARTS}", field=subject
        )
    if (voices := len({run.delivery.voice for run in runs(script)})) > MAX_VOICES:
        raise InvalidInput(f"{voices} voices; at most {MAX_VOICES} are allowed in one request", field=subject)


class PlainText:
    """The text of all runs, one after another: what subtitles show."""

    def __init__(self, script: Script) -> None:
        spoken = list(runs(script))
        parts = [run.text for run in spoken[:1]]
        for before, run in pairwise(spoken):
            parts += (_gap(before), run.text)
        whole = Traced.join(parts)
        self.text = whole.text
        self._starts = whole.starts
        self._ends = whole.ends

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """The range of the plain text for a range of the original."""
        return bisect_left(self._starts, start), bisect_left(self._ends, end) + 1


def _gap(before: Run) -> Traced:
    position = before.text.ends[-1]
    text = " " if before.continues else "\n\n"
    return Traced(text, [position] * len(text), [position] * len(text))
