"""Vorbis comments in FLAC files and in Ogg with Opus: titles, chapters (CHAPTER001=…) and the cover."""

from __future__ import annotations

import shutil
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from itertools import chain, dropwhile
from pathlib import Path
from typing import IO

from kokoro_server.errors import EngineError
from kokoro_server.longform.books.book import Picture
from kokoro_server.longform.books.containers.tags import GENRE, BookTags, ChapterMark

VENDOR = b"Kokoro Server"
FRONT_COVER = 3
STREAMINFO, SEEKTABLE, COMMENT, PICTURE = 0, 3, 4, 6
MAX_BLOCK = (1 << 24) - 1  # bytes of a FLAC metadata block
SERIAL = 1  # libsndfile's is random
MAX_PAGE = 255 * 255  # bytes
CONTINUED = 1
REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

OggPage = tuple[int, int, bytes, bytes]  # flags, granule position, lacing values, content


def write_flac(path: Path, source: Path, tags: BookTags) -> None:
    """The sound of a FLAC file with our tags."""
    with source.open("rb") as sound, path.open("wb") as file:
        if sound.read(4) != b"fLaC":
            raise EngineError("the flac encoder returned no FLAC file")
        kept = [block for block in _flac_blocks(sound) if block[0] in (STREAMINFO, SEEKTABLE)]
        blocks = [*kept, (COMMENT, _comments(_fields(tags)))]
        if tags.cover and len(picture := _picture(tags.cover)) <= MAX_BLOCK:
            blocks.append((PICTURE, picture))
        file.write(b"fLaC")
        for index, (kind, content) in enumerate(blocks):
            last = 0x80 if index == len(blocks) - 1 else 0
            file.write(struct.pack(">I", (kind | last) << 24 | len(content)) + content)
        shutil.copyfileobj(sound, file, 1 << 20)


def write_opus(path: Path, source: Path, tags: BookTags) -> None:
    """The sound of an Ogg Opus file with our tags."""
    fields = _fields(tags)
    if tags.cover:
        fields.append(("METADATA_BLOCK_PICTURE", b64encode(_picture(tags.cover)).decode()))
    with source.open("rb") as sound, path.open("wb") as file:
        pages = _ogg_pages(sound)
        ours = _packet_pages(b"OpusTags" + _comments(fields))
        for number, page in enumerate(chain([next(pages)], ours, dropwhile(_is_of_tags, pages))):
            file.write(_page(*page, number))


def _fields(tags: BookTags) -> list[tuple[str, str]]:
    fields = [("TITLE", tags.title), ("ALBUM", tags.album), ("GENRE", GENRE)]
    fields += [("ARTIST", author) for author in tags.authors]
    if tags.track:
        fields += [("TRACKNUMBER", str(tags.track[0])), ("TRACKTOTAL", str(tags.track[1]))]
    for number, mark in enumerate(tags.marks):
        fields += [(f"CHAPTER{number:03}", _clock(mark)), (f"CHAPTER{number:03}NAME", mark.title)]
    return fields


def _clock(mark: ChapterMark) -> str:
    seconds, thousandths = divmod(mark.start_ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{thousandths:03}"


def _comments(fields: list[tuple[str, str]]) -> bytes:
    entries = [f"{name}={value}".encode() for name, value in fields]
    listed = b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)
    return struct.pack("<I", len(VENDOR)) + VENDOR + struct.pack("<I", len(entries)) + listed


def _picture(cover: Picture) -> bytes:
    kind = cover.media_type.encode()
    size = struct.pack(">5I", 0, 0, 0, 0, len(cover.content))  # only the last is needed
    return struct.pack(">II", FRONT_COVER, len(kind)) + kind + struct.pack(">I", 0) + size + cover.content


def _flac_blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    last = False
    while not last:
        (head,) = struct.unpack(">I", file.read(4))
        last = bool(head >> 31)
        yield head >> 24 & 0x7F, file.read(head & 0xFFFFFF)


def _ogg_pages(file: IO[bytes]) -> Iterator[OggPage]:
    while head := file.read(27):
        magic, flags, granule, count = struct.unpack("<4sxBq12xB", head)
        if magic != b"OggS":
            raise EngineError("the opus encoder returned no Ogg file")
        lacing = file.read(count)
        yield flags, granule, lacing, file.read(sum(lacing))


def _is_of_tags(page: OggPage) -> bool:
    return page[3].startswith(b"OpusTags") or bool(page[0] & CONTINUED)


def _packet_pages(packet: bytes) -> Iterator[OggPage]:
    lacing = b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,))
    for start in range(0, len(lacing), 255):
        first, values = start * 255, lacing[start : start + 255]
        granule = 0 if values[-1] < 255 else -1  # -1: no packet ends on this page
        yield CONTINUED if start else 0, granule, values, packet[first : first + MAX_PAGE]


def _page(flags: int, granule: int, lacing: bytes, content: bytes, number: int) -> bytes:
    head = struct.pack("<4sBBqII", b"OggS", 0, flags, granule, SERIAL, number)
    rest = bytes((len(lacing),)) + lacing + content
    return head + struct.pack("<I", _checksum(head + bytes(4) + rest)) + rest


def _checksum(page: bytes) -> int:
    """Ogg's CRC: zlib's, with the bits of all bytes and of the result reversed, and without inversion."""
    mirrored = zlib.crc32(page.translate(REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(REVERSED_BITS), "big")
