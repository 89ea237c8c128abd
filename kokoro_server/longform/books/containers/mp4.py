"""MP4 audio (.m4b): AAC frames with chapters, as QuickTime's text track and as Nero's list, tags and a cover.

It holds no creation times, so that the same frames make the same file.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import EngineError
from kokoro_server.longform.books.containers.tags import GENRE, BookTags, ChapterMark

FRAME_SAMPLES = 1024  # of AAC
PRIMING = 1024  # samples that the encoder puts before the first; the edit list skips them
FRAMES_PER_CHUNK = 24  # about a second
MILLISECONDS = 1000  # a second: the timescale of the movie and of chapters
ADTS_HEADER = 7  # bytes
MAX_NERO_CHAPTERS = 255  # a byte counts them
COVER_TYPES = {"image/jpeg": 13, "image/png": 14}
IDENTITY = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
LANGUAGE = 0x55C4  # und
ENCODING_UTF8 = struct.pack(">I4sI", 12, b"encd", 0x100)


@dataclass(slots=True)
class AacFrames:
    """Writes the AAC frames of an ADTS stream to a file, and keeps their sizes."""

    file: IO[bytes]
    sizes: list[int] = field(default_factory=list)
    _rest: bytes = b""

    def add(self, adts: bytes) -> None:
        data, place = self._rest + adts, 0
        while len(data) - place >= ADTS_HEADER:
            if data[place] != 0xFF or data[place + 1] & 0xF6 != 0xF0:
                raise EngineError("the aac encoder returned no ADTS frames")
            size = (data[place + 3] & 3) << 11 | data[place + 4] << 3 | data[place + 5] >> 5
            if len(data) - place < size:
                break
            head = ADTS_HEADER if data[place + 1] & 1 else ADTS_HEADER + 2  # with a checksum
            self.file.write(data[place + head : place + size])
            self.sizes.append(size - head)
            place += size
        self._rest = data[place:]


def write(path: Path, frames: Path, sizes: Sequence[int], samples: int, tags: BookTags) -> None:
    """Write a file of `samples` samples. `frames` is the file of AacFrames, `sizes` are those of the frames."""
    titles = [_text_sample(mark.title) for mark in tags.marks]
    head = _box(b"ftyp", b"M4B ", struct.pack(">I", 0x200), b"M4B M4A mp42isom")
    content = sum(sizes)
    wide = content > 0xF000_0000
    # The offset of the frames depends on the size of the box that holds it.
    offset = len(head) + len(_movie(sizes, samples, tags, titles, 0, wide)) + (16 if wide else 8)
    movie = _movie(sizes, samples, tags, titles, offset, wide)
    size = content + sum(map(len, titles))
    with path.open("wb") as file, frames.open("rb") as source:
        file.write(head + movie)
        file.write(struct.pack(">I4sQ", 1, b"mdat", size + 16) if wide else struct.pack(">I4s", size + 8, b"mdat"))
        shutil.copyfileobj(source, file, 1 << 20)
        file.write(b"".join(titles))


def _box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind) + body


def _full(kind: bytes, *content: bytes, version: int = 0, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags), *content)


def _movie(
    sizes: Sequence[int], samples: int, tags: BookTags, titles: Sequence[bytes], offset: int, wide: bool
) -> bytes:
    duration = -(-samples * MILLISECONDS // SAMPLE_RATE)
    header = struct.pack(">4I", 0, 0, MILLISECONDS, duration) + struct.pack(">IHHII", 0x10000, 0x100, 0, 0, 0)
    tracks = [_audio_track(sizes, samples, duration, offset, wide, has_chapters=bool(titles))]
    if titles:
        tracks.append(_chapter_track(tags.marks, titles, duration, offset + sum(sizes), wide))
    return _box(
        b"moov",
        _full(b"mvhd", header, IDENTITY, bytes(24), struct.pack(">I", len(tracks) + 1)),
        *tracks,
        _user_data(tags),
    )


def _audio_track(
    sizes: Sequence[int], samples: int, duration: int, offset: int, wide: bool, *, has_chapters: bool
) -> bytes:
    edit = _full(b"elst", struct.pack(">IIiHH", 1, duration, PRIMING, 1, 0))
    table = _box(
        b"stbl",
        _full(b"stsd", struct.pack(">I", 1), _audio_entry(sizes, samples)),
        _full(b"stts", struct.pack(">III", 1, len(sizes), FRAME_SAMPLES)),
        _sample_to_chunk(len(sizes)),
        _full(b"stsz", struct.pack(">II", 0, len(sizes)), struct.pack(f">{len(sizes)}I", *sizes)),
        _chunk_table(_chunk_offsets(sizes, offset), wide),
    )
    return _box(
        b"trak",
        _track_header(1, duration, flags=7, volume=0x100),
        _box(b"edts", edit),
        *([_box(b"tref", _box(b"chap", struct.pack(">I", 2)))] if has_chapters else []),
        _media(SAMPLE_RATE, len(sizes) * FRAME_SAMPLES, b"soun", _full(b"smhd", bytes(4)), table),
    )


def _chapter_track(
    marks: Sequence[ChapterMark], titles: Sequence[bytes], duration: int, offset: int, wide: bool
) -> bytes:
    starts = [mark.start_ms for mark in marks]
    lengths = [after - start for start, after in zip(starts, [*starts[1:], duration], strict=True)]
    entry = struct.pack(">6xHIiHHHHHHHHxxxx", 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0) + bytes(18)
    table = _box(
        b"stbl",
        _full(b"stsd", struct.pack(">I", 1), _box(b"text", entry)),
        _full(b"stts", struct.pack(">I", len(lengths)), b"".join(struct.pack(">II", 1, each) for each in lengths)),
        _full(b"stsc", struct.pack(">IIII", 1, 1, len(titles), 1)),
        _full(b"stsz", struct.pack(">II", 0, len(titles)), *(struct.pack(">I", len(title)) for title in titles)),
        _chunk_table([offset], wide),
    )
    text_header = _box(b"gmhd", _full(b"gmin", struct.pack(">HHHHHH", 0x40, 0x8000, 0x8000, 0x8000, 0, 0)))
    return _box(
        b"trak",
        _track_header(2, duration, flags=2, volume=0),  # not enabled: players show it only as chapters
        _media(MILLISECONDS, sum(lengths), b"text", text_header, table),
    )


def _track_header(number: int, duration: int, *, flags: int, volume: int) -> bytes:
    times = struct.pack(">5I8x", 0, 0, number, 0, duration)
    return _full(b"tkhd", times, struct.pack(">HHHH", 0, 0, volume, 0), IDENTITY, bytes(8), flags=flags)


def _media(timescale: int, duration: int, kind: bytes, header: bytes, table: bytes) -> bytes:
    data = _full(b"dref", struct.pack(">I", 1), _full(b"url ", flags=1))
    long = struct.pack(">QQIQHH", 0, 0, timescale, duration, LANGUAGE, 0)  # more than 49 hours of samples
    return _box(
        b"mdia",
        _full(b"mdhd", long, version=1),
        _full(b"hdlr", bytes(4), kind, bytes(13)),
        _box(b"minf", header, _box(b"dinf", data), table),
    )


def _audio_entry(sizes: Sequence[int], samples: int) -> bytes:
    rate = {24_000: 6}[SAMPLE_RATE]
    configuration = struct.pack(">H", 2 << 11 | rate << 7 | 1 << 3)  # low complexity, one channel
    mean = round(sum(sizes) * 8 * SAMPLE_RATE / max(samples, 1))
    specific = _descriptor(5, configuration)
    decoder = _descriptor(4, struct.pack(">BB3sII", 0x40, 0x15, bytes(3), mean, mean), specific)
    stream = _descriptor(3, struct.pack(">HB", 1, 0), decoder, _descriptor(6, b"\x02"))
    entry = struct.pack(">6xH8xHHHHI", 1, 1, 16, 0, 0, SAMPLE_RATE << 16)
    return _box(b"mp4a", entry, _full(b"esds", stream))


def _descriptor(tag: int, *content: bytes) -> bytes:
    body = b"".join(content)
    return bytes((tag, len(body))) + body


def _chunk_offsets(sizes: Sequence[int], offset: int) -> list[int]:
    offsets: list[int] = []
    for start in range(0, len(sizes), FRAMES_PER_CHUNK):
        offsets.append(offset)
        offset += sum(sizes[start : start + FRAMES_PER_CHUNK])
    return offsets


def _sample_to_chunk(frames: int) -> bytes:
    whole, rest = divmod(frames, FRAMES_PER_CHUNK)
    entries = [(1, FRAMES_PER_CHUNK, 1)] if whole else []
    entries += [(whole + 1, rest, 1)] if rest else []
    return _full(b"stsc", struct.pack(">I", len(entries)), *(struct.pack(">III", *entry) for entry in entries))


def _chunk_table(offsets: Sequence[int], wide: bool) -> bytes:
    kind, letter = (b"co64", "Q") if wide else (b"stco", "I")
    return _full(kind, struct.pack(f">I{len(offsets)}{letter}", len(offsets), *offsets))


def _text_sample(title: str) -> bytes:
    text = title.encode()[:1000].decode(errors="ignore").encode()
    return struct.pack(">H", len(text)) + text + ENCODING_UTF8


def _user_data(tags: BookTags) -> bytes:
    handler = _full(b"hdlr", bytes(4), b"mdirappl", bytes(9))
    meta = _full(b"meta", handler, _box(b"ilst", *_items(tags)))
    return _box(b"udta", *([_nero_chapters(tags.marks)] if tags.marks else []), meta)


def _items(tags: BookTags) -> Iterator[bytes]:
    texts = {b"\xa9nam": tags.title, b"\xa9alb": tags.album, b"\xa9ART": tags.artist, b"aART": tags.artist}
    for kind, text in (texts | {b"\xa9gen": GENRE}).items():
        if text:
            yield _box(kind, _box(b"data", struct.pack(">II", 1, 0), text.encode()))
    if tags.track:
        yield _box(b"trkn", _box(b"data", struct.pack(">IIHHHH", 0, 0, 0, *tags.track, 0)))
    yield _box(b"stik", _box(b"data", struct.pack(">IIB", 21, 0, 2)))  # an audiobook
    if tags.cover and (picture := COVER_TYPES.get(tags.cover.media_type)):
        yield _box(b"covr", _box(b"data", struct.pack(">II", picture, 0), tags.cover.content))


def _nero_chapters(marks: Sequence[ChapterMark]) -> bytes:
    listed = marks[:MAX_NERO_CHAPTERS]
    entries = bytearray()
    for mark in listed:
        title = mark.title.encode()[:255].decode(errors="ignore").encode()
        entries += struct.pack(">QB", mark.start_ms * 10_000, len(title)) + title
    return _full(b"chpl", struct.pack(">IB", 0, len(listed)), bytes(entries), version=1)
