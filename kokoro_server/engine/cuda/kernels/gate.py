"""A gate on the device, at which the work of one stream waits while another stream works.

A stream's priority is not enough: its kernels start first, but only after the running kernels have ended. Beside full
batches every kernel of a short batch waits a little, and the short batch takes two or three times as long. A full batch
that passes a gate stops between two kernels instead, and the short one has the device for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kokoro_server.engine.cuda.kernels import triton_kernels as kernels

# After this many looks, about 20 ms on an H200, a closed gate is passed all the same. So the streams cannot deadlock:
# the one that closed the gate may wait for a lock that the waiting one's thread holds.
MOST_LOOKS = 32_768

_checked = threading.local()


class Gate:
    """Create, open and close it on its device, on the stream that has precedence."""

    def __init__(self, device: torch.device) -> None:
        self._closed = torch.zeros(2, dtype=torch.int32, device=device)  # flag, number of looks
        self._flag = self._closed[:1]

    def close(self) -> None:
        """Close it, in the order of the current stream."""
        self._flag.fill_(1)

    def open(self) -> None:
        self._flag.zero_()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Work that this thread queues inside waits at each `checkpoint` while the gate is closed."""
        _checked.gate = self
        try:
            yield
        finally:
            _checked.gate = None

    def wait(self) -> None:
        kernels.pass_gate[(1,)](self._closed, MOST_LOOKS, num_warps=1)


def checkpoint() -> None:
    """Make the device wait at the gate that this thread checks, if any."""
    gate: Gate | None = getattr(_checked, "gate", None)
    if gate is not None:
        gate.wait()
