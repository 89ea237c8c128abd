"""The finished lines of a bulk run, in a file that is only appended to: a kill loses its last line at most.

A line has a sign, the numbers of the output's name and of its request's key (16 hexadecimal digits each), a checksum of
the rest of the line (8 digits), and JSON. The last line of a name counts. In memory, each line takes some 40 bytes.
Journals of earlier versions have no checksums.

A damaged line does not count, so its clip is made again. It is overwritten with `#`, and reported only once.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import threading
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import numpy as np

from kokoro_server.runtime.json import JsonObject

Sign = Literal["+", "-", "?"]  # made, failed, verified
LINE = re.compile(rb"([-+?])([0-9a-f]{16}) ([0-9a-f]{16}) (?:([0-9a-f]{8}) )?(?=\{)")
READ_BYTES = 8192

log = logging.getLogger(__name__)


def as_json(record: JsonObject) -> bytes:
    """JSON in UTF-8. A text may hold half of a surrogate pair, which is escaped."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace")


class Journal:
    """Threads may call its methods at once."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)
        self._turn = threading.Lock()  # to append, or to close
        self._names, self._keys, self._offsets = array("Q"), array("Q"), array("Q")
        self._heard: dict[int, int] = {}  # by key: lines that were verified
        self.damaged = 0  # lines of earlier runs, found at the start
        with path.open("r+b") as lines:
            self._load(lines)
        if self.damaged:
            log.warning("%s has %d damaged lines: their clips are made again", path, self.damaged)
        self._order = np.argsort(np.frombuffer(self._names, np.uint64), kind="stable")
        self._sorted = np.frombuffer(self._names, np.uint64)[self._order]

    def close(self) -> None:
        with self._turn:
            self._file.close()

    def _load(self, lines: IO[bytes]) -> None:
        offset, damaged = 0, list[tuple[int, int]]()
        for line in lines:
            if not line.endswith(b"\n"):  # a kill, or a power cut, came between
                self.damaged += 1
                break
            if (found := LINE.match(line)) and _is_whole(line, found):
                self._index(found[1].decode(), int(found[2], 16), int(found[3], 16), offset)
            elif line.strip(b"#\n"):
                damaged.append((offset, len(line) - 1))
            offset += len(line)
        self._file.truncate(offset)
        self.damaged += len(damaged)
        for start, length in damaged:
            lines.seek(start)
            lines.write(b"#" * length)

    def _index(self, sign: str, name: int, key: int, offset: int) -> None:
        if sign == "?":
            self._heard[key] = offset
        else:
            self._names.append(name)
            self._keys.append(key)
            self._offsets.append(offset)

    def append(self, sign: Sign, name: int, key: int, record: JsonObject) -> int:
        """Write a line and return its offset. `sync` brings it to the disk."""
        head, content = b"%b%016x %016x " % (sign.encode(), name, key), as_json(record)
        line = b"%b%08x %b\n" % (head, _checksum(head, content), content)
        with self._turn:
            offset = self._file.seek(0, os.SEEK_END)
            if self._file.write(line) < len(line):
                self._file.truncate(offset)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sign == "?":
            self._heard[key] = offset
        return offset

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def find(self, name: int, key: int) -> int | None:
        """The offset at which an earlier run made this. None if it did not, or the name has a later line."""
        place = int(np.searchsorted(self._sorted, np.uint64(name), side="right")) - 1
        if place < 0 or int(self._sorted[place]) != name:
            return None
        last = int(self._order[place])
        return self._offsets[last] if self._keys[last] == key and self.is_made(self._offsets[last]) else None

    def is_heard(self, key: int) -> bool:
        return key in self._heard

    def heard(self, key: int) -> JsonObject | None:
        offset = self._heard.get(key)
        return None if offset is None else self.read(offset)

    def is_made(self, offset: int) -> bool:
        """Whether the line there is of a clip, not of a failure."""
        return self._bytes_at(offset, 1) == b"+"

    def read(self, offset: int) -> JsonObject:
        """The record of the line there."""
        line = bytearray()
        while not line.endswith(b"\n"):
            chunk = self._bytes_at(offset + len(line), READ_BYTES)
            if not chunk:
                raise OSError(errno.EIO, os.strerror(errno.EIO), self._file.name)
            line += chunk[: chunk.find(b"\n") + 1] or chunk
        record: JsonObject = json.loads(line[line.index(b"{") :])
        return record

    def _bytes_at(self, offset: int, size: int) -> bytes:
        if hasattr(os, "pread"):  # not on Windows; it moves no file position
            return os.pread(self._file.fileno(), size, offset)
        with self._turn:  # `append` goes to the end by itself
            self._file.seek(offset)
            return self._file.read(size)

    def files(self) -> Iterator[str]:
        """The files that earlier runs made, whether they still exist or not."""
        for offset in self._offsets:
            if self.is_made(offset):
                yield self.read(offset)["file"]


def _checksum(head: bytes, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(head))


def _is_whole(line: bytes, found: re.Match[bytes]) -> bool:
    content = line[found.end() : -1]
    if found[4]:
        return _checksum(line[: found.start(4)], content) == int(found[4], 16)
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return found[1] != b"+" or ({"file", "bytes"} <= record.keys() and record.get("key") == found[3].decode())
