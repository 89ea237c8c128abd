"""Finds notes at the foot of a page and references to them: both are smaller than the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import regex

from kokoro_server.longform.books.documents.flow import FOOTNOTE, REFERENCE
from kokoro_server.longform.books.documents.pdf.pages import Page

_SMALL = 0.9  # of the size of the text
_MARK = regex.compile(r"\s*(?:\d{1,3}|[*†‡§¶]{1,3})\s*")
_NOTE = regex.compile(r"\s*(?:\d{1,3}|[*†‡§¶]{1,3})[.)]?\s*\p{L}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Text with its height above the foot of the page, and its size."""

    text: str
    height: float
    size: float


@dataclass(frozen=True, slots=True)
class _Line:
    chunks: tuple[Chunk, ...]

    @property
    def text(self) -> str:
        return " ".join("".join(chunk.text for chunk in self.chunks).split())

    @property
    def largest(self) -> Chunk:
        return max((chunk for chunk in self.chunks if chunk.text.strip()), key=lambda chunk: chunk.size)


def without_notes(pages: Sequence[Sequence[Chunk]]) -> list[Page]:
    sizes = Counter[float]()
    for page in pages:
        for chunk in page:
            sizes[round(chunk.size, 1)] += len(chunk.text.strip())
    usual = max(sizes, key=sizes.__getitem__, default=0.0)
    return [_cleared(list(_lines(page)), usual * _SMALL) for page in pages]


def _lines(chunks: Sequence[Chunk]) -> Iterator[_Line]:
    line: list[Chunk] = []
    for chunk in chunks:
        *ended, rest = chunk.text.split("\n")
        for text in ended:
            yield _Line((*line, replace(chunk, text=text)))
            line = []
        line.append(replace(chunk, text=rest))
    yield _Line(tuple(line))


def _cleared(lines: Sequence[_Line], small: float) -> Page:
    notes = _notes(lines, small)
    kept, left = list[str](), list[tuple[str, str]]()
    for number, line in enumerate(lines):
        if number not in notes:
            kept.append(_without_references(line, left))
        elif left and left[-1][0] == FOOTNOTE and not _NOTE.match(line.text):
            left[-1] = (FOOTNOTE, f"{left[-1][1]} {line.text}")  # a further line of the same note
        else:
            left.append((FOOTNOTE, line.text))
    return Page(kept, left)


def _notes(lines: Sequence[_Line], small: float) -> set[int]:
    """Small lines below all of the text, from the first that begins like a note. Bare numbers are those of pages."""
    written = {number: line for number, line in enumerate(lines) if line.text}
    foot = min((line.largest.height for line in written.values() if line.largest.size > small), default=0.0)
    below = {n: line for n, line in written.items() if line.largest.size <= small and line.largest.height < foot}
    first = max((line.largest.height for line in below.values() if _NOTE.match(line.text)), default=-1.0)
    return {n for n, line in below.items() if line.largest.height <= first and not _MARK.fullmatch(line.text)}


def _without_references(line: _Line, left: list[tuple[str, str]]) -> str:
    """The text without small numbers and signs after a word."""
    text = ""
    for chunk in line.chunks:
        is_small = chunk.text.strip() and chunk.size <= line.largest.size * _SMALL
        if is_small and text.strip() and _MARK.fullmatch(chunk.text):
            left.append((REFERENCE, chunk.text.strip()))
        else:
            text += chunk.text
    return " ".join(text.split())
