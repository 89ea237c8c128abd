"""The tags of an audio file."""

from __future__ import annotations

from dataclasses import dataclass

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.longform.books.book import Picture

GENRE = "Audiobook"


@dataclass(frozen=True, slots=True)
class ChapterMark:
    """A chapter from its first sample, `start`, to the one after its last, `end`."""

    title: str
    start: int
    end: int

    @property
    def start_ms(self) -> int:
        return round(self.start * 1000 / SAMPLE_RATE)

    @property
    def end_ms(self) -> int:
        return round(self.end * 1000 / SAMPLE_RATE)


@dataclass(frozen=True, slots=True)
class BookTags:
    title: str
    album: str  # the title of the book
    authors: tuple[str, ...] = ()
    cover: Picture | None = None
    marks: tuple[ChapterMark, ...] = ()
    track: tuple[int, int] | None = None  # number, from 1, and count

    @property
    def artist(self) -> str:
        return ", ".join(self.authors)
