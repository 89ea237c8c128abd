"""Matrix products of nearly single precision at the speed of half precision."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.cuda.kernels import triton_kernels as kernels
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.model.layers import Linear
from kokoro_server.engine.model.lengths import Placement

BIAS_COLUMNS = 8  # after the three parts: two for the bias, the rest to a multiple of 16 bytes


class SplitLinear(Linear):
    """A number as the sum of two halves has 22 bits: x·w is high·high + low·high + high·low, one product three times
    as deep. TF32 has 11 bits, which moves about one duration in 1,500 by a frame; this moves none.
    """

    def __init__(self, weight: Tensor, bias: Tensor, placement: Placement) -> None:
        super().__init__(weight, bias, placement)
        high, low = split_fp16(self.weight)
        bias = F.pad(torch.stack(split_fp16(self.bias), 1), (0, BIAS_COLUMNS - 2))  # (out, BIAS_COLUMNS): times ones
        self.stacked = torch.cat([high, high, low, bias], 1).t()  # (3 * in + BIAS_COLUMNS, out)

    def __call__(self, x: Tensor) -> Tensor:
        checkpoint()
        parts = split_activations(x, 3, x.shape[-1], len(self.stacked))
        return torch.mm(parts.flatten(0, -2), self.stacked, out_dtype=torch.float32).view(*x.shape[:-1], -1)


def split_activations(x: Tensor, count: int, stride: int, width: int) -> Tensor:
    """High, low and (if `count` is 3) high halves of (…, channels), `stride` apart, then two ones: (…, width)."""
    lines = x.reshape(-1, x.shape[-1])
    parts = lines.new_empty(*x.shape[:-1], width, dtype=torch.float16)
    kernels.split_fp16[(len(lines),)](
        lines, parts, lines.shape[1], stride, width, count, 1 << (stride - 1).bit_length()
    )
    return parts


def split_fp16(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two halves whose sum has 22 bits of `x`."""
    high = x.half()
    return high, (x - high.float()).half()
