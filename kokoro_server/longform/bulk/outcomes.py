"""What becomes of a line: it is made, or it has failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kokoro_server.client.errors import ClientError
from kokoro_server.errors import KokoroError, TextTooLong, Unavailable

TRIES = 2
PASSING = (401, 403, 408, 409, 429)  # statuses that a line may not have the next time


@dataclass(frozen=True, slots=True)
class Made:
    size: int  # bytes of the audio file
    duration: float  # seconds
    words: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Failed:
    code: str
    message: str
    field: str | None
    tries: int
    lasting: bool  # the request is at fault, not who should have spoken it
    absent: bool = False  # nobody was there to speak it


def failure(error: KokoroError | ClientError, tries: int) -> Failed:
    status = getattr(error, "status", None) or 500
    lasting = isinstance(error, TextTooLong) or (400 <= status < 500 and status not in PASSING)
    absent = isinstance(error, Unavailable)
    return Failed(error.code, error.message, getattr(error, "field", None), tries, lasting, absent)
