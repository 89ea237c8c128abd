"""The audio files of a book."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import soundfile

from kokoro_server.audio import wav
from kokoro_server.audio.encoders import AacEncoder
from kokoro_server.audio.formats import ENCODINGS, Format
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.longform.books.assembly import AudioParts, SpokenChapter
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.containers import id3, mp4, vorbis
from kokoro_server.longform.books.containers.tags import BookTags, ChapterMark
from kokoro_server.longform.books.names import file_stem
from kokoro_server.longform.books.options import BookFormat
from kokoro_server.longform.books.work_folder import new_file

TAGGED: dict[BookFormat, Callable[[Path, Path, BookTags], None]] = {
    "mp3": id3.write,
    "flac": vorbis.write_flac,
    "opus": vorbis.write_opus,
}
AAC_BIT_RATE = 64_000  # as audiobooks commonly have for one voice


def book_tags(book: Book, chapters: Sequence[SpokenChapter]) -> BookTags:
    marks = tuple(ChapterMark(chapter.title, chapter.start, chapter.end) for chapter in chapters)
    return BookTags(book.title, book.title, book.authors, book.cover, marks)


def chapter_name(chapter: SpokenChapter, count: int, format: BookFormat) -> str:
    """`01 Down the Rabbit-Hole.mp3`, with the chapter's number in the book."""
    digits = max(2, len(str(count)))
    return f"{chapter.number + 1:0{digits}} {file_stem(chapter.title)}".strip() + f".{format}"


def write_audio(path: Path, format: BookFormat, sound: AudioParts, tags: BookTags, scratch: Path) -> None:
    """Write a file with its tags. `scratch` is a folder for the untagged sound."""
    with new_file(path) as unfinished:
        bare = scratch / f"sound.{format}.unfinished"
        try:
            if format == "m4b":
                _write_m4b(unfinished, sound, tags, bare)
            else:
                _encode(bare, sound, format)
                TAGGED[format](unfinished, bare, tags)
        finally:
            bare.unlink(missing_ok=True)


def _write_m4b(path: Path, sound: AudioParts, tags: BookTags, bare: Path) -> None:
    samples = 0
    with closing(AacEncoder(SAMPLE_RATE, AAC_BIT_RATE)) as encoder, bare.open("wb") as file:
        frames = mp4.AacFrames(file)
        for audio in sound:
            frames.add(encoder.write(audio))
            samples += len(audio)
        frames.add(encoder.finish())
    mp4.write(path, bare, frames.sizes, samples, tags)


def _encode(path: Path, sound: AudioParts, format: Format) -> None:
    encoding = ENCODINGS[format]
    # The file is opened by name: libsndfile would lose an error that a Python file object raises.
    with soundfile.SoundFile(
        str(path), "w", SAMPLE_RATE, 1, format=encoding.container, subtype=encoding.subtype
    ) as file:
        for audio in sound:
            file.buffer_write(wav.pcm16(audio, in_range=True), "int16")
