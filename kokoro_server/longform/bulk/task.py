"""A line of the input that is still to be made."""

from __future__ import annotations

from dataclasses import dataclass

from kokoro_server.errors import KokoroError
from kokoro_server.runtime.json import JsonObject


@dataclass(frozen=True, slots=True)
class Task:
    index: int  # among all lines, from 0
    number: int  # of the line in the file, from 1
    id: str
    name: str  # of the audio file
    file: str  # in the output folder: the audio file, or the shard that has it
    fields: JsonObject  # the request
    key: int  # 64 bits, of the request, the name and the engine's version
    characters: int
    error: KokoroError | None = None  # what is wrong with the line

    @property
    def key_text(self) -> str:
        """As records have it."""
        return f"{self.key:016x}"
