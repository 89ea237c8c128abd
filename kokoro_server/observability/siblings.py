"""The other processes of the same server: one process answers for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from kokoro_server.observability.conditions import Degradation

# The families of metrics, each with its samples: name, labels, value.
MetricSample = tuple[str, dict[str, str], float]
Family = tuple[str, str, str, Sequence[MetricSample]]  # name, type, documentation, samples


class Cell(IntEnum):
    """Numbers that processes show each other immediately."""

    CONNECTIONS = 0
    STREAMS = 1
    CLOSED = 2  # whether an API worker takes no more connections


class Siblings:
    """The siblings of a process that has none."""

    async def refresh(self) -> None:
        """Let the siblings publish their current numbers."""

    def metrics(self) -> list[Sequence[Family]]:
        """The metrics of each sibling."""
        return []

    def degradations(self) -> list[Degradation]:
        return []

    def streams(self) -> list[Mapping[str, int]]:
        """How many streams each sibling has, and has had."""
        return []

    def processes(self) -> list[dict[str, Any]]:
        """All processes of the server: name, pid, state, restarts."""
        return []

    @property
    def workers(self) -> int:
        """The number of API workers, this process included."""
        return 1

    def total(self, _cell: Cell) -> int:
        """The sum of the siblings' numbers."""
        return 0

    def fewest(self, _cell: Cell) -> int:
        """The smallest number of another API worker."""
        return 0

    def own(self, _cell: Cell) -> int:
        """The number that this process shows."""
        return 0

    def show(self, cell: Cell, value: int) -> None:
        """Show the siblings a number of this process."""
