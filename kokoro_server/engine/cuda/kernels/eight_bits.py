"""Convolutions in 8 bits on an NVIDIA GPU: half the bytes of half precision, and products twice as fast.

Each output channel's weights have a scale, and so has each tile of a signal: an utterance is loud at its ends, so a
scale for a whole signal would lose what is quiet. A snake comes multiplied by its gains, which is undone first: they
would put some channels far below the others, and the weights for them far above.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda.kernels import triton_eight_bits as kernels
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.conv import STAGES, TILE_CHANNELS, TILE_STEPS, FusedConv
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.cuda.kernels.norm import FusedInstanceNorm
from kokoro_server.engine.cuda.kernels.triton_kernels import descriptor
from kokoro_server.engine.model.layers import AdaINParams, InstanceNorm, fuse_weight_norm
from kokoro_server.engine.model.lengths import Lengths, Placement, kernel_args

DEPTH = 128  # input channels of one product: as many bytes as in half precision
WIDTHS = (128, 256)  # of the signals whose snake is written in bytes
AT_ONCE = 4096  # numbers of such a signal


class ByteConv(FusedConv):
    """A convolution of a snake. The snake's kernel writes the bytes that the convolution's reads.

    Tiles are of one size in every batch, however small, and sums are exact: so a row sounds the same in all.
    """

    def __init__(self, module: Any, placement: Placement, card: Card, gain: Tensor) -> None:
        super().__init__(module, placement, card, gain)
        weight = fuse_weight_norm(module) * gain.sign().view(1, -1, 1)  # (out, in, taps)
        scales = weight.abs().amax((1, 2)).clamp_min(1e-12) / 127
        in_bytes = (weight / scales.view(-1, 1, 1)).round().to(torch.int8)
        self.weight = in_bytes.permute(0, 2, 1).flatten(1).to(placement.device).contiguous()  # (out, taps * in)
        self.scales = scales.to(placement.device, torch.float32)
        self.factors = (1 / gain.abs()).view(-1).to(placement.device, torch.float32)

    @staticmethod
    def takes(module: Any) -> bool:
        """With 3 taps, what a tile takes besides its products costs more than bytes save."""
        fits = module.in_channels in WIDTHS and module.out_channels % TILE_CHANNELS == 0
        return fits and module.kernel_size[0] > 3

    def of_snake(
        self, signal: InstanceNorm, style: AdaINParams, lengths: Lengths, base: Tensor | None = None
    ) -> InstanceNorm:
        assert isinstance(signal, FusedInstanceNorm)
        rows, time, channels = signal.x.shape
        affine = signal.affine(style)
        blocks = self.outputs // TILE_CHANNELS
        tile, tiles, where = TILE_STEPS, -(-time // TILE_STEPS), kernel_args(lengths)
        checkpoint()
        x = torch.empty(rows * tiles, tile + 2 * self.padding, channels, dtype=torch.int8, device=signal.x.device)
        steps = affine.new_empty(rows, tiles)
        kernels.snake_in_bytes[(tiles, rows)](
            signal.x, x, steps, affine, self.factors, *where, time, tiles, self.padding, channels, tile,
            AT_ONCE // channels,
        )  # fmt: skip
        checkpoint()
        y = signal.x.new_empty(rows, time, self.outputs, dtype=self.output)
        parts = steps.new_empty(rows, tiles, 2, self.outputs)
        shape = [1, tile, TILE_CHANNELS]
        out = descriptor(y, shape)
        kernels.conv1d_in_bytes[(tiles * blocks, rows)](
            descriptor(x, [1, tile, DEPTH]), descriptor(self.weight, [TILE_CHANNELS, DEPTH]), out,
            out if base is None else descriptor(base, shape), self.bias, self.scales, steps, parts, *where,
            self.dilation, tiles, self.outputs, channels, blocks, self.taps, base is not None, True,
            tile, TILE_CHANNELS, DEPTH, num_stages=STAGES,
        )  # fmt: skip
        return FusedInstanceNorm(y, lengths, parts, tile)
