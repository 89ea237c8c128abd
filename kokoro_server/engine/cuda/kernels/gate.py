"""A gate on the device: work that is queued on one stream waits there while another stream's is under way.

Kernels of a stream with a higher priority are begun first, but not before those that run have ended: beside full
batches, every kernel of a short one waits a little, and the whole takes two or three times as long. A batch whose
kernels pass a gate instead stops between two of them, and the other has the device for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kokoro_server.engine.cuda.kernels import triton_kernels as kernels

# How often a gate is looked at before it is passed though it is closed: some 20 ms on an H200. So nothing that the
# other stream waits for, such as a lock which the thread of this one holds, can stop both for good.
MOST_LOOKS = 32_768

_checked = threading.local()


class Gate:
    """To be made, opened and closed on the device that it is for, on the stream that others are to wait for."""

    def __init__(self, device: torch.device) -> None:
        self._closed = torch.zeros(2, dtype=torch.int32, device=device)  # whether it is; and how often it was looked at
        self._flag = self._closed[:1]

    def close(self) -> None:
        """From here on in the order of the current stream."""
        self._flag.fill_(1)

    def open(self) -> None:
        self._flag.zero_()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """What this thread queues in here waits at each `checkpoint` as long as the gate is closed."""
        _checked.gate = self
        try:
            yield
        finally:
            _checked.gate = None

    def wait(self) -> None:
        kernels.pass_gate[(1,)](self._closed, MOST_LOOKS, num_warps=1)


def checkpoint() -> None:
    """Wait on the device for the gate that the thread is to check, if there is one."""
    gate: Gate | None = getattr(_checked, "gate", None)
    if gate is not None:
        gate.wait()
