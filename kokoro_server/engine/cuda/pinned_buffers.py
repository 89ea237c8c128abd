"""Pinned (page-locked) host memory for audio from a GPU, reused when nobody refers to it any more."""

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
LEFT_BEHIND: deque[tuple[float, Tensor]] = deque()  # buffers still referred to when their pool was closed
IDLE_SECONDS = 15.0  # after which an unused buffer is freed: as many stay as a crowd needs at once


def allocate(samples: int) -> Tensor:
    return torch.empty(samples, pin_memory=True)


def allocate_pageable(samples: int) -> Tensor:
    return torch.empty(samples)


def empty_cache() -> None:
    """Give freed pinned memory that torch keeps back to the system."""
    torch._C._host_emptyCache()  # the oldest torch we support has no torch.accelerator.empty_host_cache


class PinnedBuffers:
    """A pool of at most `limit` bytes. Beyond that `acquire` returns ordinary memory, into which copies are slower.

    With torch's own pool, the thread that drops the last row frees the buffer, which records an event on the device's
    stream; if that stream is being captured just then, the process ends. Here only `acquire` frees buffers.
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
        self._freed = False  # whether torch may still keep a buffer that was freed
        # By size: when each was last in use, and the buffer, the latest last. The latest is taken first, so that the
        # buffers of a past crowd grow old at the other end.
        self._free: defaultdict[int, deque[tuple[float, Tensor]]] = defaultdict(deque)

    def acquire(self, rows: int, samples: int, *, may_free: bool = True) -> tuple[Tensor, NDArray[np.float32]]:
        """A buffer as a tensor and as an array. It is free again when the last view of the array is gone.

        `may_free`: memory may be freed now, which waits for all work of the device.
        """
        if may_free:
            self._trim()
        size = max(SMALLEST, 1 << (rows * samples - 1).bit_length())
        free = self._free[size]
        whole = free.pop()[1] if free else self._new(size)
        if whole is None:
            buffer = allocate_pageable(rows * samples).view(rows, samples)
            return buffer, buffer.numpy()
        buffer = whole.as_strided((rows, samples), (samples, 1))
        view: NDArray[np.float32] = buffer.numpy()
        weakref.finalize(view, self._release, free, whole)
        return buffer, view

    def close(self) -> None:
        """Free all unused buffers. Buffers in use are freed later, when any pool acquires one."""
        self._closed = True
        self._free.clear()
        self.bytes = 0

    def _new(self, size: int) -> Tensor | None:
        """A new buffer, if need be in place of unused ones. None if the limit leaves no room."""
        for free in self._free.values():
            while free and self.bytes + size * SAMPLE_BYTES > self._limit:
                self._drop(free)
        if self.bytes + size * SAMPLE_BYTES > self._limit:
            return None
        whole = self._allocate(size)
        self.bytes += size * SAMPLE_BYTES
        return whole

    def _drop(self, free: deque[tuple[float, Tensor]]) -> None:
        """Free the buffer that has been unused for longest."""
        self.bytes -= len(free.popleft()[1]) * SAMPLE_BYTES
        self._freed = True

    def _release(self, free: deque[tuple[float, Tensor]], whole: Tensor) -> None:
        # Runs in any thread, so it must not free anything.
        (LEFT_BEHIND if self._closed else free).append((self._now(), whole))

    def _trim(self) -> None:
        """Free buffers unused for some time, and give the system the memory that was freed the time before.

        Torch waits until the device has passed the point at which a buffer was freed. By the next batch it has.
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
