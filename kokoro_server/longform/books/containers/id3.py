"""ID3v2.3 tags, which come before the sound of an mp3 file: titles, chapters (CHAP, CTOC) and the cover."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from kokoro_server.longform.books.book import Picture
from kokoro_server.longform.books.containers.tags import GENRE, BookTags, ChapterMark

UTF16 = b"\x01"
NO_OFFSET = 0xFFFFFFFF  # chapters are marked by time alone
FRONT_COVER = b"\x03"
MAX_LISTED = 255  # chapters in the table of contents, which counts them in a byte


def write(path: Path, source: Path, tags: BookTags) -> None:
    """The sound of an mp3 file behind our tags."""
    body = b"".join(_frames(tags))
    syncsafe = bytes((len(body) >> shift) & 0x7F for shift in (21, 14, 7, 0))
    with source.open("rb") as sound, path.open("wb") as file:
        file.write(b"ID3\x03\x00\x00" + syncsafe + body)
        shutil.copyfileobj(sound, file, 1 << 20)


def _frames(tags: BookTags) -> Iterator[bytes]:
    track = "/".join(map(str, tags.track)) if tags.track else ""
    texts = {"TIT2": tags.title, "TALB": tags.album, "TPE1": tags.artist, "TPE2": tags.artist, "TRCK": track}
    for name, value in (texts | {"TCON": GENRE}).items():
        if value:
            yield _text(name, value)
    if tags.marks:
        yield _contents(tags.marks[:MAX_LISTED])
        yield from (_chapter(number, mark) for number, mark in enumerate(tags.marks))
    if tags.cover:
        yield _picture(tags.cover)


def _frame(name: str, content: bytes) -> bytes:
    return struct.pack(">4sIH", name.encode(), len(content), 0) + content


def _text(name: str, value: str) -> bytes:
    return _frame(name, UTF16 + value.encode("utf-16"))


def _contents(marks: Sequence[ChapterMark]) -> bytes:
    children = b"".join(f"chp{number}".encode() + b"\0" for number in range(len(marks)))
    return _frame("CTOC", b"toc\0" + struct.pack(">BB", 3, len(marks)) + children)  # top level, in order


def _chapter(number: int, mark: ChapterMark) -> bytes:
    times = struct.pack(">IIII", mark.start_ms, mark.end_ms, NO_OFFSET, NO_OFFSET)
    return _frame("CHAP", f"chp{number}".encode() + b"\0" + times + _text("TIT2", mark.title))


def _picture(cover: Picture) -> bytes:
    return _frame("APIC", b"\0" + cover.media_type.encode() + b"\0" + FRONT_COVER + b"\0" + cover.content)
