"""Reads the answer of `POST /tts/bulk`: for each clip a line of JSON, then its audio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kokoro_server.client.errors import BrokenOff


def read_clips(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, dict[str, Any], bytes]]:
    """For each clip its line, what that tells, and its audio. Raises BrokenOff in the middle of one."""
    reader = _Reader(chunks)
    while line := reader.line():
        told = json.loads(line)
        yield line, told, reader.take(told["bytes"])


class _Reader:
    """Bytes that come in chunks. Each of them is copied once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._at = 0  # in it

    def line(self) -> bytes:
        """The next line without its end; nothing after the last."""
        parts = list[bytes]()
        while True:
            end = self._chunk.find(b"\n", self._at)
            if end >= 0:
                parts.append(self._chunk[self._at : end])
                self._at = end + 1
                return b"".join(parts)
            parts.append(self._chunk[self._at :])
            if not self._next():
                break
        if any(parts):
            raise BrokenOff("the answer ended within a line")
        return b""

    def take(self, size: int) -> bytes:
        parts = list[bytes]()
        while True:
            part = self._chunk[self._at : self._at + size]
            parts.append(part)
            self._at += len(part)
            size -= len(part)
            if not size:
                return b"".join(parts)
            if not self._next():
                raise BrokenOff("the answer ended within a clip")

    def _next(self) -> bool:
        chunk = next(self._chunks, None)
        self._chunk, self._at = chunk or b"", 0
        return chunk is not None
