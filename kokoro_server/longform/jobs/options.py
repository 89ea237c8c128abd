"""What a job is asked for, as the store keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.options import BookFiles, Options, chosen, parse_chapters


def book_options(options: dict[str, Any], book: Book) -> Options:
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


def book_outputs(options: dict[str, Any], folder: Path, stem: str) -> BookFiles:
    """The files in `folder`, which are named after the document."""
    subtitles = options["subtitles"]
    return BookFiles(
        audio=folder / (stem if options["by_chapter"] else f"{stem}.{options['format']}"),
        format=options["format"],
        by_chapter=options["by_chapter"],
        subtitles=folder / f"{stem}.{subtitles}" if subtitles else None,
        read_along=folder / f"{stem} (read along).epub" if options["read_along"] else None,
    )
