"""A line of the input that is to be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kokoro_server.errors import KokoroError


@dataclass(frozen=True, slots=True)
class Task:
    index: int  # its place among all lines
    number: int  # of the line in the file
    id: str
    name: str  # of the audio file
    file: str  # in the output folder: the audio file, or the shard that has it
    fields: dict[str, Any]  # the request
    key: int  # 64 bits, of the request, the name and the engine's version
    characters: int
    error: KokoroError | None = None  # what is wrong with the line

    @property
    def key_text(self) -> str:
        """As it is in records."""
        return f"{self.key:016x}"
