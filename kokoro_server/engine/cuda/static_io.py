"""The inputs and outputs of a batch on a GPU, at fixed addresses: CUDA graphs always use the same memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Row

POSITIONS = MAX_TOKENS + 2
DUMMY_SPEED = 1e6  # makes a dummy row as short as possible: one frame

Fields = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]  # dtype and shape of each row's part
INPUTS: Fields = {
    "tokens": (torch.int64, (POSITIONS,)),
    "counts": (torch.int64, ()),
    "seeds": (torch.int64, ()),
    "style": (torch.float32, (STYLE_DIM,)),
    "speed": (torch.float32, ()),
    "semitones": (torch.float32, ()),
}
OUTPUTS: Fields = {"frames": (torch.int64, ()), "durations": (torch.int64, (POSITIONS,))}


class MirroredBuffer:
    """The fields of all rows, in one block of memory on the host and one on the device.

    A single call copies each, and numpy reads and writes the host's: with every call torch releases the GIL and must
    wait to get it back, while the device is idle.
    """

    def __init__(self, fields: Fields, rows: int, device: torch.device) -> None:
        size = sum(rows * math.prod(shape) * dtype.itemsize for dtype, shape in fields.values())
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._device = torch.zeros(size, dtype=torch.uint8, device=device)
        self.host = {name: field.numpy() for name, field in _views(self._host, fields, rows).items()}
        self.device = _views(self._device, fields, rows)

    def send(self) -> None:
        """Copy to the device, in stream order."""
        self._device.copy_(self._host, non_blocking=True)

    def fetch(self) -> None:
        """Copy to the host. Complete once the stream is synchronized."""
        self._host.copy_(self._device, non_blocking=True)


def _views(whole: Tensor, fields: Fields, rows: int) -> dict[str, Tensor]:
    views, start = {}, 0
    for name, (dtype, shape) in fields.items():
        end = start + rows * math.prod(shape) * dtype.itemsize
        views[name], start = whole[start:end].view(dtype).view(rows, *shape), end
    return views


class StaticIO:
    """Static buffers for up to `rows` rows. The text step writes `frames` and `durations` for decode step and host."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._inputs, self._outputs = MirroredBuffer(INPUTS, rows, device), MirroredBuffer(OUTPUTS, rows, device)
        inputs, outputs = self._inputs.device, self._outputs.device
        self.tokens, self.counts, self.seeds = inputs["tokens"], inputs["counts"], inputs["seeds"]
        self.style, self.speed, self.semitones = inputs["style"], inputs["speed"], inputs["semitones"]
        self.frames, self.durations = outputs["frames"], outputs["durations"]
        self.host_frames, self.host_durations = self._outputs.host["frames"], self._outputs.host["durations"]

    def stage(self, rows: Sequence[Row], size: int) -> None:
        """Send rows to the device, and dummies up to `size`. The rows sent before must have arrived."""
        host = self._inputs.host
        tokens, counts, seeds = host["tokens"], host["counts"], host["seeds"].view(np.uint64)
        style, speed, semitones = host["style"], host["speed"], host["semitones"]
        tokens[:size] = 0
        counts[:size], speed[:size] = 1, DUMMY_SPEED
        for i, row in enumerate(rows):
            tokens[i, 1 : len(row.tokens) + 1] = row.tokens
            style[i], seeds[i] = row.style, row.seed % 2**64
            counts[i], speed[i], semitones[i] = len(row.tokens) + 2, row.speed, row.pitch
        self._inputs.send()

    def fetch(self) -> None:
        """Copy to `host_frames` and `host_durations`. Complete once the stream is synchronized."""
        self._outputs.fetch()
