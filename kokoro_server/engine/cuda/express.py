"""The express engine: it speaks urgent rows beside an engine that is busy with a large batch, on the same device and
with the same weights.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kokoro_server.engine.cuda.kernels.gate import Gate
from kokoro_server.engine.cuda.shapes import GraphShape
from kokoro_server.engine.cuda.stream_engine import StreamEngine
from kokoro_server.engine.protocol import EngineLimits, Result, Row
from kokoro_server.runtime.pause_budget import PauseBudget

ROWS = 16
PADDED_FRAMES = 4096  # that memory is planned for: 16 rows of 6 s
PREDICTED_FRAMES = 3584
PRIORITY = -1  # of its stream; other streams have 0
MAX_GRAPHS = 128
MAX_PINNED_BYTES = 256 * 2**20


class ExpressEngine(StreamEngine):
    """While an express batch runs, the other engine's queued work stops at `gate`, within the pause budget."""

    def __init__(self, other: StreamEngine, gate: Gate) -> None:
        super().__init__(other.model, ROWS, other.hidden, MAX_GRAPHS, MAX_PINNED_BYTES, PRIORITY)
        self.precision = other.precision
        self._gate = gate
        self._budget = PauseBudget()
        self._pausing = False  # whether the other engine may be stopped
        self._closed = False  # whether the gate is closed
        self.pauses_nobody = threading.Event()
        self.pauses_nobody.set()
        self.last_used = float("-inf")  # by time.monotonic()
        self.set_limits(limits(other.limits), PADDED_FRAMES)

    def _usual_shapes(self) -> list[GraphShape]:
        return self._shapes.first()

    def _run(self, rows: Sequence[Row]) -> list[Result]:
        with self._budget.taken() as self._pausing:
            try:
                if self._pausing:
                    self.pauses_nobody.clear()
                return super()._run(rows)
            finally:
                self._pausing = False
                self.pauses_nobody.set()

    def resources(self) -> dict[str, float]:
        """The other engine reports the memory that the process holds on the device."""
        return super().resources() | {"device_bytes": 0.0, "device_reserved_bytes": 0.0}

    def _launch(self, rows: Sequence[Row]) -> Callable[[], list[Result]]:
        self.last_used = time.monotonic()
        self._close()  # the other engine stops while the rows are sent
        try:
            return super()._launch(rows)
        finally:
            self._open()

    def _run_decode(self, rows: int, frames: int) -> Tensor:
        buffer = super()._run_decode(rows, frames)
        self._open()  # first of all: allocating memory for the audio may wait for the other engine
        return buffer

    def _copy_out(self, buffer: Tensor, pinned: Tensor) -> torch.cuda.Event:
        # On the stream of the kernels: only one call of this engine runs at a time.
        pinned.copy_(buffer[: len(pinned)], non_blocking=True)
        copy_done: torch.cuda.Event = self._stream.record_event()
        return copy_done

    def _may_free_host_memory(self) -> bool:
        return False  # it holds little

    def _before_replay(self) -> None:
        self._close()

    def _before_launch(self) -> None:
        # A launch waits for the other engine's thread that launches kernels. That thread waits for room in its stream,
        # which stays full while the gate is closed.
        self._open()

    def _close(self) -> None:
        if self._pausing and not self._closed:
            self._gate.close()
            self._closed = True

    def _open(self) -> None:
        if self._closed:
            self._gate.open()
            self._closed = False


def limits(other: EngineLimits) -> EngineLimits:
    """The limits of an express engine beside one with the limits `other`."""
    buckets = tuple(rows for rows in other.row_buckets if rows <= ROWS)
    return replace(other, max_rows=ROWS, max_padded_frames=PREDICTED_FRAMES, row_buckets=buckets, max_in_flight=1)
