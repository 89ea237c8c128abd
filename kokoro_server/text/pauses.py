"""`[pause:1.5s]` in a text: exactly that much silence, there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kokoro_server.errors import InvalidInput
from kokoro_server.text.splitter import Span

MARK = re.compile(r"\[pause:([^\[\]\n]*)\]", re.IGNORECASE)
LENGTH = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*(ms|s)\s*", re.IGNORECASE)
MAX_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


def parts(text: str, field: str = "text") -> Iterator[Span | Pause]:
    """The text between the marks, with its place, and the pauses, in order. InvalidInput, of `field`, for a bad one."""
    start = 0
    for mark in MARK.finditer(text):
        yield from _text(text, start, mark.start())
        yield Pause(_seconds(mark, field))
        start = mark.end()
    yield from _text(text, start, len(text))


def _text(text: str, start: int, end: int) -> Iterator[Span]:
    if text[start:end].strip():
        yield Span(start, end, text[start:end])


def _seconds(mark: re.Match[str], field: str) -> float:
    length = LENGTH.fullmatch(mark.group(1))
    seconds = float(length[1]) / (1000 if length[2].lower() == "ms" else 1) if length else -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        raise InvalidInput(
            f"{mark.group()[:60]!r} at character {mark.start()}: a pause is written [pause:1.5s] or [pause:300ms] "
            f"and lasts at most {MAX_SECONDS:g} s",
            field=field,
        )
    return seconds
