"""Where a batch lies while a GPU works on it: the same memory for every batch, as recorded graphs require."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Row

POSITIONS = MAX_TOKENS + 2
DUMMY_SPEED = 1e6  # a row that only fills up a batch takes the least a row can: one frame

Fields = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]  # what there is of each row
GIVEN: Fields = {
    "tokens": (torch.int64, (POSITIONS,)),
    "counts": (torch.int64, ()),
    "seeds": (torch.int64, ()),
    "style": (torch.float32, (STYLE_DIM,)),
    "speed": (torch.float32, ()),
    "semitones": (torch.float32, ()),
}
FOUND: Fields = {"frames": (torch.int64, ()), "durations": (torch.int64, (POSITIONS,))}


class Block:
    """Fields of all rows, in one piece of memory on the host and one on the device.

    Each is copied by a single call, and the host's is written and read through numpy: with every call, torch gives up
    the interpreter and must wait for it to come back, while the device does nothing.
    """

    def __init__(self, fields: Fields, rows: int, device: torch.device) -> None:
        size = sum(rows * math.prod(shape) * dtype.itemsize for dtype, shape in fields.values())
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._device = torch.zeros(size, dtype=torch.uint8, device=device)
        self.host = {name: field.numpy() for name, field in _parts(self._host, fields, rows).items()}
        self.device = _parts(self._device, fields, rows)

    def send(self) -> None:
        """To the device, when its stream gets there."""
        self._device.copy_(self._host, non_blocking=True)

    def fetch(self) -> None:
        """To the host; there once the stream has been waited for."""
        self._host.copy_(self._device, non_blocking=True)


def _parts(whole: Tensor, fields: Fields, rows: int) -> dict[str, Tensor]:
    found, start = {}, 0
    for name, (dtype, shape) in fields.items():
        end = start + rows * math.prod(shape) * dtype.itemsize
        found[name], start = whole[start:end].view(dtype).view(rows, *shape), end
    return found


class Desk:
    """Room for `rows`. The text side leaves `frames` and `durations` for the rest of the work, and for the host."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._given, self._found = Block(GIVEN, rows, device), Block(FOUND, rows, device)
        given, found = self._given.device, self._found.device
        self.tokens, self.counts, self.seeds = given["tokens"], given["counts"], given["seeds"]
        self.style, self.speed, self.semitones = given["style"], given["speed"], given["semitones"]
        self.frames, self.durations = found["frames"], found["durations"]
        self.seen_frames, self.seen_durations = self._found.host["frames"], self._found.host["durations"]

    def lay_out(self, rows: Sequence[Row], size: int) -> None:
        """Send rows to the device, and dummies up to `size`. What was sent before must have arrived."""
        host = self._given.host
        tokens, counts, seeds = host["tokens"], host["counts"], host["seeds"].view(np.uint64)
        style, speed, semitones = host["style"], host["speed"], host["semitones"]
        tokens[:size] = 0
        counts[:size], speed[:size] = 1, DUMMY_SPEED
        for i, row in enumerate(rows):
            tokens[i, 1 : len(row.tokens) + 1] = row.tokens
            style[i], seeds[i] = row.style, row.seed % 2**64
            counts[i], speed[i], semitones[i] = len(row.tokens) + 2, row.speed, row.pitch
        self._given.send()

    def fetch(self) -> None:
        """Have `seen_frames` and `seen_durations` be what the device found, once its stream has been waited for."""
        self._found.fetch()
