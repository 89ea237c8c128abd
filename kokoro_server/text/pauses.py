"""The pauses of a text: `[pause:1.5s]`, exactly that much silence, and those that its punctuation asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kokoro_server.errors import InvalidInput
from kokoro_server.text.splitter import TextSpan

PAUSE_MARKUP = re.compile(r"\[pause:([^\[\]\n]*)\]", re.IGNORECASE)
_DURATION = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*(ms|s)\s*", re.IGNORECASE)
MAX_SECONDS = 30.0

Ending = Literal["paragraph", "sentence", "semicolon", "comma", "none"]  # of a piece of text; "none": within a clause


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds from the end of speech to its next beginning, at speed 1, by what is written between the two.

    They are as the model leaves them inside one call: at commas it leaves 0.25 to 0.35 s, at a semicolon, a colon or a
    dash 0.46 to 0.52, after a sentence 0.31 to 0.51, and 0.8 between paragraphs. Within a clause it leaves none; the
    value is the room that the margins of two joined pieces need.
    """

    comma: float = 0.30
    semicolon: float = 0.48
    sentence: float = 0.40
    paragraph: float = 0.75
    none: float = 0.08

    def after(self, ending: Ending) -> float:
        return float(getattr(self, ending))


NATURAL_PAUSES = Pauses()


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


def split_pauses(text: str, field: str = "text", origin: Sequence[int] | None = None) -> Iterator[TextSpan | Pause]:
    """The text between the pauses, with its offsets, and the pauses, in order.

    Raises InvalidInput, naming `field` and the place, which `origin` has for each character if it is another text's.
    """
    start = 0
    for match in PAUSE_MARKUP.finditer(text):
        yield from _text(text, start, match.start())
        yield Pause(_seconds(match, field, origin))
        start = match.end()
    yield from _text(text, start, len(text))


def total_silence(text: str, field: str = "text", origin: Sequence[int] | None = None) -> float:
    """The seconds of all pauses in `text`. Raises as `split_pauses` does."""
    return sum(_seconds(match, field, origin) for match in PAUSE_MARKUP.finditer(text))


def _text(text: str, start: int, end: int) -> Iterator[TextSpan]:
    if text[start:end].strip():
        yield TextSpan(start, end, text[start:end])


def parse_seconds(text: str) -> float | None:
    """The seconds of `1.5s` or `300ms`; None if it is neither, or longer than a pause may be."""
    duration = _DURATION.fullmatch(text)
    seconds = float(duration[1]) / (1000 if duration[2].lower() == "ms" else 1) if duration else math.inf
    return seconds if seconds <= MAX_SECONDS else None


def _seconds(match: re.Match[str], field: str, origin: Sequence[int] | None) -> float:
    seconds = parse_seconds(match.group(1))
    if seconds is None:
        place = origin[match.start()] if origin else match.start()
        raise InvalidInput(
            f"{match.group()[:60]!r} at character {place}: a pause is written [pause:1.5s] or [pause:300ms] "
            f"and lasts at most {MAX_SECONDS:g} s",
            field=field,
        )
    return seconds
