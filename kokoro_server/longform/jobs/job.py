"""A job: what was asked for, how far it is, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kokoro_server.runtime.json import JsonObject as JsonObject

JobKind = Literal["book", "list"]
JobState = Literal["queued", "running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """As the store has it. Times are seconds since 1970."""

    id: str
    caller: str
    kind: JobKind
    name: str  # of the file that was sent
    options: JsonObject  # what was asked for
    about: JsonObject  # what the file is: title, chapters, remarks
    created: float
    state: JobState = "queued"
    started: float | None = None
    finished: float | None = None
    progress: JsonObject = field(default_factory=dict)
    result: JsonObject | None = None
    error: JsonObject | None = None
    attempts: int = 0  # that ended without anything new
    version: int = 0  # grows with every change

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "failed")
