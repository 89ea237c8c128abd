"""A job: its request, its progress and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kokoro_server.runtime.json import JsonObject as JsonObject

JobKind = Literal["book", "list"]
JobState = Literal["queued", "running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """A row of the store. Times are seconds since 1970."""

    id: str
    caller: str
    kind: JobKind
    name: str  # of the file that was sent
    options: JsonObject  # the fields of the request
    about: JsonObject  # the document: title, chapters, remarks
    created: float
    state: JobState = "queued"
    started: float | None = None
    finished: float | None = None
    progress: JsonObject = field(default_factory=dict)
    result: JsonObject | None = None
    error: JsonObject | None = None
    attempts: int = 0  # in a row that made no progress
    version: int = 0  # grows with every change

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "failed")
