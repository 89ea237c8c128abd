"""Reads the response of `POST /tts/bulk`: for each clip a line of JSON, then its audio."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from kokoro_server.client.errors import BrokenOff
from kokoro_server.runtime.json import JsonObject


def read_clips(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, JsonObject, bytes]]:
    """Each clip as its line, the same parsed, and its audio. Raises BrokenOff where the response ends within a clip."""
    reader = io.BufferedReader(_Chunks(chunks))
    while line := reader.readline():
        if not line.endswith(b"\n"):
            raise BrokenOff("the response ended within a line")
        head = json.loads(line)
        audio = reader.read(head["bytes"])
        if len(audio) < head["bytes"]:
            raise BrokenOff("the response ended within a clip")
        yield line[:-1], head, audio


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
