"""How an audiobook is read, and which files are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kokoro_server.errors import InvalidInput

BookFormat = Literal["m4b", "mp3", "opus", "flac"]

# Audiobook shops ask for an RMS level from -23 to -18 dB and peaks under -3 dB (ACX). LUFS does not count pauses:
# speech of -18 LUFS has an RMS level of about -20 dB.
DEFAULT_LOUDNESS = -18.0  # LUFS
PEAK_LIMIT = -3.0  # dB, of the decoded files
QUIETEST, LOUDEST = -40.0, -10.0  # LUFS
_RANGE = re.compile(r"\s*(\d{1,6})\s*(?:(-)\s*(\d{1,6})?)?\s*")


@dataclass(frozen=True, slots=True)
class BookFiles:
    """The files to make. With `by_chapter`, `audio` is a folder."""

    audio: Path | None = None
    format: BookFormat = "m4b"
    by_chapter: bool = False
    subtitles: Path | None = None  # .srt or .vtt
    read_along: Path | None = None  # .epub


@dataclass(frozen=True, slots=True)
class Options:
    """How a book is read. Without `voice`, each language gets a voice of its own."""

    voice: str | None = None
    language: str | None = None  # of all text; None: as the book says; "auto": also where it does not
    speed: float = 1.0
    dialogue_voice: str | None = None
    cast: Mapping[str, str] = field(default_factory=dict)  # voices of characters, by their names
    chapters: frozenset[int] | None = None  # numbers, from 0; None: all
    loudness: float | None = DEFAULT_LOUDNESS  # LUFS; None: unchanged


def parse_chapters(text: str) -> list[tuple[int, int | None]]:
    """Ranges of numbers from 1, such as 3, 3-5, 1,3-5 or 7-. Raises ValueError."""
    ranges: list[tuple[int, int | None]] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        first = int(found[1]) if found else 0
        last = (int(found[3]) if found[3] else None if found[2] else first) if found else 0
        if first < 1 or (last is not None and last < first):
            raise ValueError(f"{text[:60]!r} is not like 3, 3-5, 1,3-5 or 7-")
        ranges.append((first, last))
    return ranges


def chosen(ranges: list[tuple[int, int | None]], count: int) -> frozenset[int]:
    """The numbers, from 0, of the chapters in `ranges`. `count` is that of the book. Raises InvalidInput."""
    for first, last in ranges:
        if max(first, last or 0) > count:
            raise InvalidInput(f"there is no chapter {max(first, last or 0)}: the book has {count}", field="chapters")
    return frozenset(number - 1 for first, last in ranges for number in range(first, (last or count) + 1))
