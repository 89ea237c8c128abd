"""Pinned (page-locked) host memory that audio is copied into from a GPU, reused when nobody looks at it any more."""

from __future__ import annotations

import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST = 1 << 20  # samples
SAMPLE_BYTES = 4
LIMIT_BYTES = 2 * 2**30
LEFT_BEHIND: deque[tuple[float, Tensor]] = deque()  # by buffers that were closed while somebody looked at them
IDLE_SECONDS = 15.0  # after which a buffer that was not needed is given back: as many stay as a crowd needs at once


def allocate(samples: int) -> Tensor:
    return torch.empty(samples, pin_memory=True)


def allocate_pageable(samples: int) -> Tensor:
    return torch.empty(samples)


def empty_cache() -> None:
    """Give the system what torch keeps of pinned memory that was freed."""
    torch._C._host_emptyCache()  # its public name, torch.accelerator.empty_host_cache, is newer than the oldest torch


class PinnedBuffers:
    """Not torch's own pool: with it, the thread that drops the last row frees the buffers, which records an event on
    the device's stream; if that stream is being captured just then, the process ends. Here, buffers are freed by the
    thread that calls `acquire`, and only while it does.

    There are `limit` bytes of them at most. What is needed beyond that is ordinary memory, which is copied into more
    slowly and is gone when it is not used any more.
    """

    def __init__(
        self,
        limit: int = LIMIT_BYTES,
        allocate: Callable[[int], Tensor] = allocate,
        empty_cache: Callable[[], None] = empty_cache,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bytes = 0
        self._limit = limit
        self._allocate = allocate
        self._empty_cache = empty_cache
        self._now = now
        self._closed = False
        self._freed = False  # whether torch has got a buffer back that it may still keep
        # By size: when each was last in use, and the buffer, the latest last. That is taken first, so that those which
        # a crowd left behind grow old at the other end.
        self._free: defaultdict[int, deque[tuple[float, Tensor]]] = defaultdict(deque)

    def acquire(self, rows: int, samples: int, *, may_free: bool = True) -> tuple[Tensor, NDArray[np.float32]]:
        """A buffer as torch and as numpy see it. It is free again when the last view of the numpy array is gone.

        `may_free`: memory may be given back now, which waits for all that the device has to do.
        """
        if may_free:
            self._trim()
        size = max(SMALLEST, 1 << (rows * samples - 1).bit_length())
        free = self._free[size]
        whole = free.pop()[1] if free else self._new(size)
        if whole is None:
            return self._pageable(rows, samples)
        buffer = whole.as_strided((rows, samples), (samples, 1))
        view: NDArray[np.float32] = buffer.numpy()
        weakref.finalize(view, self._release, free, whole)
        return buffer, view

    def close(self) -> None:
        """Give torch back all that is free. What is still looked at follows when any other buffers are acquired."""
        self._closed = True
        self._free.clear()
        self.bytes = 0

    def _new(self, size: int) -> Tensor | None:
        """A new buffer, if need be in the place of others that are free; None if there is no room for it."""
        for free in self._free.values():
            while free and self.bytes + size * SAMPLE_BYTES > self._limit:
                self._drop(free)
        if self.bytes + size * SAMPLE_BYTES > self._limit:
            return None
        whole = self._allocate(size)
        self.bytes += size * SAMPLE_BYTES
        return whole

    @staticmethod
    def _pageable(rows: int, samples: int) -> tuple[Tensor, NDArray[np.float32]]:
        buffer = allocate_pageable(rows * samples).view(rows, samples)
        return buffer, buffer.numpy()

    def _drop(self, free: deque[tuple[float, Tensor]]) -> None:
        """Give torch back the one that was free for longest."""
        self.bytes -= len(free.popleft()[1]) * SAMPLE_BYTES
        self._freed = True

    def _release(self, free: deque[tuple[float, Tensor]], whole: Tensor) -> None:
        # In any thread: it must not free anything.
        (LEFT_BEHIND if self._closed else free).append((self._now(), whole))

    def _trim(self) -> None:
        """Give torch back what has not been used for some time, and the system what torch got the time before.

        Torch waits for the device to have passed the point at which a buffer was freed: by the next batch, it has.
        """
        if self._freed:
            self._empty_cache()
            self._freed = False
        if LEFT_BEHIND:
            LEFT_BEHIND.clear()
            self._freed = True
        before = self._now() - IDLE_SECONDS
        for free in self._free.values():
            while free and free[0][0] < before:
                self._drop(free)
