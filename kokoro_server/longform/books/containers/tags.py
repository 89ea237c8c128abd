"""What a file of a book tells beside its sound."""

from __future__ import annotations

from dataclasses import dataclass

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.longform.books.book import Picture

GENRE = "Audiobook"


@dataclass(frozen=True, slots=True)
class ChapterMark:
    """A chapter's title, and its first sample and that after its last."""

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
    album: str  # the book's title, where a file is one of its chapters
    authors: tuple[str, ...] = ()
    cover: Picture | None = None
    marks: tuple[ChapterMark, ...] = ()
    track: tuple[int, int] | None = None  # its number and how many there are, from 1

    @property
    def artist(self) -> str:
        return ", ".join(self.authors)
