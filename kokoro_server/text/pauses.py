"""`[pause:1.5s]` in a text: exactly that much silence at that point."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kokoro_server.errors import InvalidInput
from kokoro_server.text.splitter import Span

PAUSE_MARKUP = re.compile(r"\[pause:([^\[\]\n]*)\]", re.IGNORECASE)
_DURATION = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*(ms|s)\s*", re.IGNORECASE)
MAX_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


def split_pauses(text: str, field: str = "text") -> Iterator[Span | Pause]:
    """The text between the pauses, with its offsets, and the pauses, in order. Raises InvalidInput, naming `field`."""
    start = 0
    for match in PAUSE_MARKUP.finditer(text):
        yield from _text(text, start, match.start())
        yield Pause(_seconds(match, field))
        start = match.end()
    yield from _text(text, start, len(text))


def total_silence(text: str, field: str = "text") -> float:
    """The seconds of all pauses in `text`."""
    return sum(_seconds(match, field) for match in PAUSE_MARKUP.finditer(text))


def _text(text: str, start: int, end: int) -> Iterator[Span]:
    if text[start:end].strip():
        yield Span(start, end, text[start:end])


def _seconds(match: re.Match[str], field: str) -> float:
    duration = _DURATION.fullmatch(match.group(1))
    seconds = float(duration[1]) / (1000 if duration[2].lower() == "ms" else 1) if duration else -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        raise InvalidInput(
            f"{match.group()[:60]!r} at character {match.start()}: a pause is written [pause:1.5s] or [pause:300ms] "
            f"and lasts at most {MAX_SECONDS:g} s",
            field=field,
        )
    return seconds
