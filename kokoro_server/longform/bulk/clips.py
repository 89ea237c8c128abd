"""Reads the response of `POST /tts/bulk`: for each clip a line of JSON, then its audio."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from kokoro_server.client.errors import BrokenOff
from kokoro_server.runtime.json import JsonObject

MAX_LINE = 64 << 20  # bytes: the words of an hour are some megabytes
MAX_CLIP = 4 << 30  # bytes: two hours in the largest format are 1.4 GB


def read_clips(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, JsonObject, bytes]]:
    """Each clip as its line, the same parsed, and its audio.

    Raises BrokenOff where the response ends within a clip, or is none of a Kokoro Server.
    """
    reader = io.BufferedReader(_Chunks(chunks))
    while line := reader.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            raise BrokenOff("the response ended within a line" if len(line) < MAX_LINE else "a line of it is too long")
        head = _parsed(line)
        audio = reader.read(head["bytes"])
        if len(audio) < head["bytes"]:
            raise BrokenOff("the response ended within a clip")
        yield line[:-1], head, audio


def _parsed(line: bytes) -> JsonObject:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if isinstance(head, dict) and all(type(head.get(name)) is int for name in ("index", "bytes")):
        size: int = head["bytes"]
        if 0 <= size <= MAX_CLIP:
            return head
    raise BrokenOff(f"the response is none of a Kokoro Server: a clip begins with {line[:60]!r}")


class _Chunks(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = filter(None, chunks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
