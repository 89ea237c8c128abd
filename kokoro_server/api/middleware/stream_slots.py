"""How many streams and WebSockets are open at once, and how streams ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kokoro_server.callers.current import caller
from kokoro_server.callers.shares import SharedLimit
from kokoro_server.errors import TooBusy
from kokoro_server.observability.metrics import Metrics
from kokoro_server.observability.siblings import Cell, Siblings

RETRY_AFTER = 5.0  # seconds: a guess, as the end of a stream depends on its listener


@dataclass
class StreamStats:
    """How many streams are being sent, and how earlier ones ended."""

    active: int = 0
    completed: int = 0
    failed: int = 0
    abandoned: int = 0
    stalled: int = 0  # responses and WebSockets whose client read nothing for STREAM_IDLE_TIMEOUT seconds


class StreamPlaces:
    """A place for each open stream and WebSocket, from its request to its end."""

    def __init__(self, limit: int, metrics: Metrics, siblings: Siblings) -> None:
        self.limit = limit
        self._places = SharedLimit(limit)
        self._siblings = siblings
        metrics.streams_open.set_function(lambda: self._places.total)

    @property
    def taken(self) -> int:
        """Places taken in all processes of the server."""
        return self._places.total + self._siblings.total(Cell.STREAMS)

    def take(self) -> Callable[[], None]:
        """Takes a place for the current caller. Returns a function that releases it.

        Raises TooBusy if all places are taken and the caller has its share of them.
        """
        name, elsewhere = caller.get(), self._siblings.total(Cell.STREAMS)
        if self._places.is_full_for(name, elsewhere=elsewhere, processes=self._siblings.workers):
            raise TooBusy(
                f"{self.taken} streams and WebSockets are open, the most allowed is {self.limit} (MAX_STREAMS)",
                retry_after=RETRY_AFTER,
            )
        self._places.take(name)
        self._show()
        return partial(self._release, name)

    def _release(self, name: str) -> None:
        self._places.give_back(name)
        self._show()

    def _show(self) -> None:
        self._siblings.show(Cell.STREAMS, self._places.total)
