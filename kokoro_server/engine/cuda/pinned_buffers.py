"""Page-locked host memory that audio is copied into from a GPU, used again when nobody looks at it any more."""

from __future__ import annotations

import weakref
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST = 1 << 20  # samples


class HostBuffers:
    """torch has such a pool too, but its buffers, freed by whatever thread drops the last row, note an event on the
    device's stream; in a stream that is being recorded just then, that ends the process.
    """

    def __init__(self) -> None:
        self._free: defaultdict[int, list[Tensor]] = defaultdict(list)

    def take(self, rows: int, samples: int) -> tuple[Tensor, NDArray[np.float32]]:
        """Room for so many, as torch and as numpy see it. It is free again when the last view of the latter is gone."""
        size = max(SMALLEST, 1 << (rows * samples - 1).bit_length())
        free = self._free[size]
        whole = free.pop() if free else torch.empty(size, pin_memory=True)
        room = whole.as_strided((rows, samples), (samples, 1))
        seen: NDArray[np.float32] = room.numpy()
        weakref.finalize(seen, free.append, whole)
        return room, seen
