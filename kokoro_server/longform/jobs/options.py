"""The options of a book, from the fields that the store keeps."""

from __future__ import annotations

from pathlib import Path

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.options import BookFiles, Options, chosen, parse_chapters
from kokoro_server.runtime.json import JsonObject


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
