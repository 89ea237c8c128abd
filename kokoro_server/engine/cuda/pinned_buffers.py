"""Pinned (page-locked) host memory that audio is copied into from a GPU, reused when nobody looks at it any more."""

from __future__ import annotations

import weakref
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST = 1 << 20  # samples


class PinnedBuffers:
    """Not torch's own pool: with it, the thread that drops the last row frees the buffers, which records an event on
    the device's stream; if that stream is being captured just then, the process ends.
    """

    def __init__(self) -> None:
        self._free: defaultdict[int, list[Tensor]] = defaultdict(list)

    def acquire(self, rows: int, samples: int) -> tuple[Tensor, NDArray[np.float32]]:
        """A buffer as torch and as numpy see it. It is free again when the last view of the numpy array is gone."""
        size = max(SMALLEST, 1 << (rows * samples - 1).bit_length())
        free = self._free[size]
        whole = free.pop() if free else torch.empty(size, pin_memory=True)
        buffer = whole.as_strided((rows, samples), (samples, 1))
        view: NDArray[np.float32] = buffer.numpy()
        weakref.finalize(view, free.append, whole)
        return buffer, view
