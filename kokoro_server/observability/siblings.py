"""The other processes of the same server, as far as one must know of them to speak for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from kokoro_server.observability.conditions import Degradation

# The families of metrics, each with its samples: name, labels, value.
MetricSample = tuple[str, dict[str, str], float]
Family = tuple[str, str, str, Sequence[MetricSample]]  # name, type, documentation, samples


class Cell(IntEnum):
    """Numbers that processes show each other at once."""

    CONNECTIONS = 0
    STREAMS = 1
    CLOSED = 2  # whether a front takes no connection any more


class Siblings:
    """Here there are none: one process does everything."""

    async def refresh(self) -> None:
        """Let the others show what is true now."""

    def metrics(self) -> list[Sequence[Family]]:
        """Those of each process."""
        return []

    def degradations(self) -> list[Degradation]:
        return []

    def streams(self) -> list[Mapping[str, int]]:
        """How many streams each front has, and has had."""
        return []

    def processes(self) -> list[dict[str, Any]]:
        """All processes of the server: name, pid, state, restarts."""
        return []

    def total(self, _cell: Cell) -> int:
        """The sum of what the others show."""
        return 0

    def fewest(self, _cell: Cell) -> int:
        """The smallest number that another API worker shows."""
        return 0

    def own(self, _cell: Cell) -> int:
        """The number that this process shows."""
        return 0

    def show(self, cell: Cell, value: int) -> None:
        """Show the others a number of this process."""
