"""The finished lines of a bulk run, in a file that is only appended to: a kill loses its last line at most.

A line has a sign, the numbers of the output's name and of its request's key (16 hexadecimal digits each), and JSON. The
last line of a name counts. In memory, each line takes some 40 bytes.
"""

from __future__ import annotations

import errno
import json
import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import numpy as np

from kokoro_server.runtime.json import JsonObject

Sign = Literal["+", "-", "?"]  # made, failed, verified
LINE = re.compile(rb"([-+?])([0-9a-f]{16}) ([0-9a-f]{16}) (?=\{)")
READ_BYTES = 8192


def as_json(record: JsonObject) -> bytes:
    """JSON in UTF-8. A text may hold half of a surrogate pair, which is escaped."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace")


class Journal:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)
        self._names, self._keys, self._offsets = array("Q"), array("Q"), array("Q")
        self._heard: dict[int, int] = {}  # by key: lines that were verified
        with path.open("rb") as lines:
            self._load(lines)
        self._order = np.argsort(np.frombuffer(self._names, np.uint64), kind="stable")
        self._sorted = np.frombuffer(self._names, np.uint64)[self._order]

    def close(self) -> None:
        self._file.close()

    def _load(self, lines: IO[bytes]) -> None:
        offset = 0
        for line in lines:
            if not line.endswith(b"\n"):
                break
            if found := LINE.match(line):
                self._index(found[1].decode(), int(found[2], 16), int(found[3], 16), offset)
            offset += len(line)
        self._file.truncate(offset)

    def _index(self, sign: str, name: int, key: int, offset: int) -> None:
        if sign == "?":
            self._heard[key] = offset
        else:
            self._names.append(name)
            self._keys.append(key)
            self._offsets.append(offset)

    def append(self, sign: Sign, name: int, key: int, record: JsonObject) -> int:
        """Write a line and return its offset. `sync` brings it to the disk."""
        offset = self._file.seek(0, os.SEEK_END)
        line = b"%b%016x %016x %b\n" % (sign.encode(), name, key, as_json(record))
        if self._file.write(line) < len(line):
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

    def heard(self, key: int) -> JsonObject | None:
        offset = self._heard.get(key)
        return None if offset is None else self.read(offset)

    def is_made(self, offset: int) -> bool:
        """Whether the line there is of a clip, not of a failure."""
        return os.pread(self._file.fileno(), 1, offset) == b"+"

    def read(self, offset: int) -> JsonObject:
        """The record of the line there. Threads may call it at once: `pread` moves no file position."""
        line = b""
        while not line.endswith(b"\n"):
            chunk = os.pread(self._file.fileno(), READ_BYTES, offset + len(line))
            line += chunk[: chunk.find(b"\n") + 1] or chunk
        record: JsonObject = json.loads(line.split(b" ", 2)[2])
        return record

    def files(self) -> Iterator[str]:
        """The files that earlier runs made, whether they still exist or not."""
        for offset in self._offsets:
            if self.is_made(offset):
                yield self.read(offset)["file"]
