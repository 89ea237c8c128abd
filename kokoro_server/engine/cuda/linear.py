"""Matrix products of nearly single precision at the speed of half."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.cuda import triton_kernels as kernels
from kokoro_server.engine.model.layers import Linear
from kokoro_server.engine.model.lengths import Place

ENDING = 8  # columns after the three parts: for the bias, to a multiple of 16 bytes


class SplitLinear(Linear):
    """A number as the sum of two halves has 22 bits: x·w is high·high + low·high + high·low, one product three times
    as deep. TF32 has 11 bits, which moves about one duration in 1,500 by a frame; this moves none.
    """

    def __init__(self, weight: Tensor, bias: Tensor, place: Place) -> None:
        super().__init__(weight, bias, place)
        high, low = halves(self.weight)
        ending = F.pad(torch.stack(halves(self.bias), 1), (0, ENDING - 2))  # (out, ENDING): against ones
        self.stacked = torch.cat([high, high, low, ending], 1).t()  # (3 * in + ENDING, out)

    def __call__(self, x: Tensor) -> Tensor:
        parts = in_parts(x, 3, x.shape[-1], len(self.stacked))
        return torch.mm(parts.flatten(0, -2), self.stacked, out_dtype=torch.float32).view(*x.shape[:-1], -1)


def in_parts(x: Tensor, count: int, apart: int, wide: int) -> Tensor:
    """High, low and (of three) high halves of (…, channels): (…, wide), `apart` from each other, then two ones."""
    lines = x.reshape(-1, x.shape[-1])
    parts = lines.new_empty(*x.shape[:-1], wide, dtype=torch.float16)
    kernels.split[(len(lines),)](lines, parts, lines.shape[1], apart, wide, count, 1 << (apart - 1).bit_length())
    return parts


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    high = x.half()
    return high, (x - high.float()).half()
