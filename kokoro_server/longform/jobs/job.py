"""A job: its request, its progress and its result; and a book's options from the fields of the request."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.options import BookFiles, Options, chosen, parse_chapters
from kokoro_server.runtime.json import JsonObject

JobKind = Literal["book", "list"]
JobState = Literal["queued", "running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """A row of the store. Times are seconds since 1970."""

    id: str
    caller: str
    kind: JobKind
    name: str  # of the file that was sent
    options: JsonObject  # the fields of the request
    about: JsonObject  # the document: title, chapters, remarks
    created: float
    state: JobState = "queued"
    started: float | None = None
    finished: float | None = None
    progress: JsonObject = field(default_factory=dict)
    result: JsonObject | None = None
    error: JsonObject | None = None
    attempts: int = 0  # in a row that made no progress
    version: int = 0  # grows with every change

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "failed")


def book_options(options: JsonObject, book: Book) -> Options:
    """Raises InvalidInput for a chapter that the book does not have."""
    chapters = options["chapters"]
    return Options(
        voice=options["voice"],
        language=options["language"],
        speed=options["speed"],
        dialogue_voice=options["dialogue_voice"],
        cast=options["voice_of"],
        chapters=chosen(parse_chapters(chapters), len(book.chapters)) if chapters else None,
        loudness=options["loudness"],
    )


def book_outputs(options: JsonObject, folder: Path, stem: str) -> BookFiles:
    """Files in `folder`, named after the document."""
    subtitles = options["subtitles"]
    return BookFiles(
        audio=folder / (stem if options["by_chapter"] else f"{stem}.{options['format']}"),
        format=options["format"],
        by_chapter=options["by_chapter"],
        subtitles=folder / f"{stem}.{subtitles}" if subtitles else None,
        read_along=folder / f"{stem} (read along).epub" if options["read_along"] else None,
    )
