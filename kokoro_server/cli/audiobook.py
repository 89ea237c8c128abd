"""`kokoro-server say book.epub -o book.m4b`: an audiobook of a document."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from kokoro_server.cli import CommandFailed
from kokoro_server.cli.backends import open_backend
from kokoro_server.cli.dry_run import describe, estimated_time
from kokoro_server.cli.options import OFF
from kokoro_server.cli.progress import BookProgressBar, clock, quiet_beside_bar
from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadModel
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import SUFFIXES, read_book
from kokoro_server.longform.books.options import DEFAULT_LOUDNESS, BookFiles, BookFormat, Options, chosen
from kokoro_server.longform.books.passages import chapter_text
from kokoro_server.longform.books.production import BookResult, planned, produce
from kokoro_server.longform.books.subtitles import SUBTITLES

log = logging.getLogger(__name__)

FORMATS: dict[str, BookFormat] = {".m4b": "m4b", ".mp3": "mp3", ".opus": "opus", ".flac": "flac"}
PLAIN = (".txt", ".md")  # files that -f says as plain text, unless an option is given that only books have
NAMED_AS_FILES = (".epub", ".pdf", ".docx")  # nobody says such a word: a name that is mistyped is not read aloud
BOOK_OPTIONS = ("dry_run", "chapters", "dialogue_voice", "voice_of", "loudness", "read_along", "format", "keep_work")
LONGEST_NAME = 1_000  # characters; a longer text is no file's name


def document(options: argparse.Namespace) -> Path | None:
    """The document to read, if the argument names one."""
    name = options.file or options.text
    if not name or name == "-" or "\n" in name or len(name) > LONGEST_NAME:
        return None
    path = Path(name)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        return None
    if options.file and suffix in PLAIN and not _only_for_books(options):
        return None
    if not path.is_file():
        if options.file or _only_for_books(options) or (suffix in NAMED_AS_FILES and " " not in name.strip()):
            raise CommandFailed(f"{name}: there is no such file")
        return None
    return path


def is_wanted(options: argparse.Namespace, document: Path | None) -> bool:
    """Whether to make an audiobook, and not just say the text."""
    given = [f"--{name.replace('_', '-')}" for name in BOOK_OPTIONS if getattr(options, name)]
    if document is None:
        if given:
            raise CommandFailed(f"{given[0]} is for books: name a document ({' '.join(SUFFIXES)})")
        return False
    if options.explain:
        raise CommandFailed("--explain takes a text, not a document")
    return bool(given) or (options.output is not None and not _is_other_audio(options.output))


def plain_text(document: Path) -> str:
    return "\n\n".join(map(chapter_text, read_book(document).chapters))


def run(settings: Settings, options: argparse.Namespace, document: Path | None, load: LoadModel) -> int:
    assert document is not None
    settings = quiet_beside_bar(settings)
    if not options.dry_run:
        outputs = _outputs(options)
    book = read_book(document)
    wanted = _options(options, book)
    for remark in book.remarks:
        log.warning("%s: %s", document.name, remark)
    if options.dry_run:
        asyncio.run(_dry_run(settings, options, book, wanted, load))
        return 0
    with BookProgressBar() as progress:
        result = asyncio.run(_produce(settings, options, book, wanted, outputs, load, progress))
    _log(result)
    return 0


def _only_for_books(options: argparse.Namespace) -> bool:
    output = options.output
    is_book = output is not None and (output.suffix.lower() == ".m4b" or _is_folder(output))
    return is_book or any(getattr(options, name) for name in BOOK_OPTIONS)


def _is_folder(path: Path) -> bool:
    """A folder of chapters. The end of a name such as "Vol. 1" is no suffix."""
    return path.is_dir() or not path.suffix or " " in path.suffix


def _is_other_audio(path: Path) -> bool:
    return not _is_folder(path) and path.suffix.lower() not in FORMATS


def _outputs(options: argparse.Namespace) -> BookFiles:
    output, subtitles, read_along = options.output, options.subtitles, options.read_along
    if output is None and read_along is None:
        raise CommandFailed("-o FILE says where the book goes: a .m4b, .mp3, .opus or .flac file, or a folder")
    if output is not None and _is_other_audio(output):
        raise CommandFailed(f"{output}: a book is a {' '.join(FORMATS)} file, or a folder of chapters")
    if subtitles and subtitles.suffix.lower() not in SUBTITLES:
        raise CommandFailed(f"{subtitles}: subtitles are {' or '.join(SUBTITLES)} files")
    if read_along and read_along.suffix.lower() != ".epub":
        raise CommandFailed(f"{read_along}: a book to read along must be an .epub file")
    by_chapter = output is not None and _is_folder(output)
    if options.format and not by_chapter:
        raise CommandFailed("--format is for a folder of chapters; a file's format is that of its suffix")
    if subtitles and by_chapter:
        raise CommandFailed("--subtitles are for a book in one file, not for a folder of chapters")
    if read_along and read_along.exists() and read_along.samefile(options.file or options.text):
        raise CommandFailed(f"{read_along}: is the document itself; give the new file another name")
    format = (options.format or "mp3") if by_chapter else FORMATS[output.suffix.lower()] if output else "mp3"
    return BookFiles(output, format, by_chapter, subtitles, read_along)


def _options(options: argparse.Namespace, book: Book) -> Options:
    return Options(
        voice=options.voice,
        language=options.language,
        speed=options.speed,
        dialogue_voice=options.dialogue_voice,
        cast=dict(options.voice_of),
        chapters=chosen(options.chapters, len(book.chapters)) if options.chapters else None,
        loudness=None if options.loudness == OFF else options.loudness or DEFAULT_LOUDNESS,
    )


async def _produce(
    settings: Settings,
    options: argparse.Namespace,
    book: Book,
    wanted: Options,
    outputs: BookFiles,
    load: LoadModel,
    progress: BookProgressBar,
) -> BookResult:
    target = outputs.audio or outputs.read_along
    assert target is not None
    stem = target.name if outputs.by_chapter else target.stem  # "Vol. 1" and "Vol. 2" are two books
    folder = target.with_name(f"{stem}.work")  # the same one for every format
    async with open_backend(settings, options.url, load) as backend:
        return await produce(book, wanted, outputs, backend, folder, progress.show, keep_work=options.keep_work)


async def _dry_run(
    settings: Settings, options: argparse.Namespace, book: Book, wanted: Options, load: LoadModel
) -> None:
    async with open_backend(settings, options.url, load) as backend:
        plan = await planned(book, wanted, backend)
        for line in describe(book, plan, wanted.speed):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
        seconds = await estimated_time(plan, backend, wanted.speed)
    sys.stdout.write(f"making it takes about {clock(seconds)} here, measured just now\n")


def _log(result: BookResult) -> None:
    for note in result.notes:
        log.warning("%s", note)
    for path in result.files:
        log.info("written %s", path)
    log.info(
        "book done audio=%s chapters=%d spoken=%d kept=%d",
        *(clock(result.seconds), len(result.chapters), result.spoken, result.kept),
    )
