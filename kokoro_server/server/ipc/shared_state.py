"""Shared memory in which every process of a server publishes its state for the other processes."""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
import zlib
from typing import Any

SUPERVISOR, ENGINE, FIRST_WORKER = 0, 1, 2  # slots
SLOT_BYTES = 1 << 24  # of which only what is used takes memory; a thousand API keys are 150 KB of metrics
CELLS = 8  # numbers of a slot, always up to date; the document may be a second old
CELLS_AT = 16
TEXTS_AT = CELLS_AT + 8 * CELLS
TEXT_BYTES = (SLOT_BYTES - TEXTS_AT) // 2
VERSION = struct.Struct("<Q")  # counts what was published: the last one is in the first text or, if odd, the second
HEAD = struct.Struct("<II")  # bytes of a text, its checksum
ATTEMPTS = 100  # to read a document that changes meanwhile


class SharedState:
    """A slot for each process: it alone writes there. A process that is restarted finds its slot again.

    The file has no name: the parent hands its descriptor to each child.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, 0)
        self.slots = tuple(ProcessSlot(self._memory, number) for number in range(len(self._memory) // SLOT_BYTES))

    @classmethod
    def create(cls, slots: int) -> SharedState:
        return cls(anonymous_file(slots * SLOT_BYTES))

    def close(self) -> None:
        for slot in self.slots:
            slot.close()
        self._memory.close()
        os.close(self.fd)


class ProcessSlot:
    """Cells and a document of one process.

    There is room for two documents: a process that is killed while it writes one leaves the other whole.
    """

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._bytes = memoryview(memory)[number * SLOT_BYTES : (number + 1) * SLOT_BYTES]
        self.cells = self._bytes[CELLS_AT:TEXTS_AT].cast("q")
        self._read: tuple[int, dict[str, Any]] = (0, {})

    @property
    def version(self) -> int:
        version: int = VERSION.unpack_from(self._bytes)[0]
        return version

    def publish(self, document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        if len(text) > TEXT_BYTES - HEAD.size:
            raise ValueError(f"{len(text)} bytes are too many for a slot of the shared state")
        version = self.version + 1
        start = self._start(version)
        self._bytes[start + HEAD.size : start + HEAD.size + len(text)] = text
        HEAD.pack_into(self._bytes, start, len(text), zlib.crc32(text))
        VERSION.pack_into(self._bytes, 0, version)

    def read(self) -> dict[str, Any]:
        """The document that was published last; empty before the first. Do not change it."""
        for _ in range(ATTEMPTS):
            version = self.version
            if version == self._read[0]:
                break
            if text := self._text(version):
                self._read = version, json.loads(text)
        return self._read[1]

    def _text(self, version: int) -> bytes | None:
        """None if it is not whole: the next document but one may be written over it while it is read."""
        start = self._start(version) + HEAD.size
        length, checksum = HEAD.unpack_from(self._bytes, start - HEAD.size)
        text = bytes(self._bytes[start : start + length])
        return text if zlib.crc32(text) == checksum else None

    def clear_cells(self) -> None:
        for index in range(CELLS):
            self.cells[index] = 0

    def close(self) -> None:
        self.cells.release()
        self._bytes.release()

    @staticmethod
    def _start(version: int) -> int:
        return TEXTS_AT + (version % 2) * TEXT_BYTES


def anonymous_file(size: int) -> int:
    """A descriptor of a file without a name, so that none is left behind."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kokoro-server")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
