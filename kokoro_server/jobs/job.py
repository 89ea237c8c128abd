"""A job: what was asked for, how far it is, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["book", "list"]
State = Literal["queued", "running", "done", "failed"]
Facts = dict[str, Any]  # JSON


@dataclass(frozen=True, slots=True)
class Job:
    """As the store has it. Times are seconds since 1970."""

    id: str
    caller: str
    kind: Kind
    name: str  # of the file that was sent
    options: Facts  # what was asked for
    about: Facts  # what the file is: title, chapters, remarks
    created: float
    state: State = "queued"
    started: float | None = None
    finished: float | None = None
    progress: Facts = field(default_factory=dict)
    result: Facts | None = None
    error: Facts | None = None
    attempts: int = 0  # that ended without anything new
    version: int = 0  # grows with every change

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "failed")
