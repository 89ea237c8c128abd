"""What a file of a book tells beside its sound."""

from __future__ import annotations

from dataclasses import dataclass

from kokoro_server.books.book import Picture
from kokoro_server.engine.protocol import SAMPLE_RATE

GENRE = "Audiobook"


@dataclass(frozen=True, slots=True)
class Mark:
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
class Tags:
    title: str
    album: str  # the book's title, where a file is one of its chapters
    authors: tuple[str, ...] = ()
    cover: Picture | None = None
    marks: tuple[Mark, ...] = ()
    track: tuple[int, int] | None = None  # its number and how many there are, from 1

    @property
    def artist(self) -> str:
        return ", ".join(self.authors)
