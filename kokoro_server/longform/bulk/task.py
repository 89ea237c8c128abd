"""A line of the input that is still to be made, and its outcome: made or failed."""

from __future__ import annotations

from dataclasses import dataclass

from kokoro_server.client.errors import ClientError
from kokoro_server.errors import KokoroError, TextTooLong, Unavailable
from kokoro_server.runtime.json import JsonObject

TRIES = 2
PASSING = (401, 403, 408, 409, 429)  # statuses that a second try may not have


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


@dataclass(frozen=True, slots=True)
class Made:
    size: int  # bytes of the audio file
    duration: float  # seconds
    words: list[JsonObject]
    voice: str | None = None  # that a server chose


@dataclass(frozen=True, slots=True)
class Failed:
    code: str
    message: str
    field: str | None
    tries: int
    lasting: bool  # the request is at fault: another try fails as well
    absent: bool = False  # no backend was available


def failure(error: KokoroError | ClientError, tries: int) -> Failed:
    status = getattr(error, "status", None) or 500
    lasting = isinstance(error, TextTooLong) or (400 <= status < 500 and status not in PASSING)
    absent = isinstance(error, Unavailable)
    return Failed(error.code, error.message, getattr(error, "field", None), tries, lasting, absent)
