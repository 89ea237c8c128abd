"""How many streams and WebSockets are open at once, and how streams ended."""

from __future__ import annotations

from dataclasses import dataclass

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
        self._own = 0
        self._siblings = siblings
        metrics.streams_open.set_function(lambda: self._own)

    @property
    def taken(self) -> int:
        """Places taken in all processes of the server."""
        return self._own + self._siblings.total(Cell.STREAMS)

    def take(self) -> None:
        """Raises TooBusy if all places are taken. `release` must follow."""
        if (taken := self.taken) >= self.limit:
            raise TooBusy(
                f"{taken} streams and WebSockets are open, the most allowed is {self.limit} (MAX_STREAMS)",
                retry_after=RETRY_AFTER,
            )
        self._change(+1)

    def release(self) -> None:
        self._change(-1)

    def _change(self, by: int) -> None:
        self._own += by
        self._siblings.show(Cell.STREAMS, self._own)
