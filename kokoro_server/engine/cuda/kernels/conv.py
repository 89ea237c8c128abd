"""Convolutions in half precision on an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.cuda.kernels import triton_kernels as kernels
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.cuda.kernels.linear import split_activations, split_fp16
from kokoro_server.engine.cuda.kernels.norm import FusedInstanceNorm
from kokoro_server.engine.model.layers import Conv, InstanceNorm, fuse_weight_norm
from kokoro_server.engine.model.lengths import Lengths, Placement, kernel_args

TILE_STEPS, TILE_CHANNELS, TILE_DEPTH = 128, 128, 64  # a tile of the result, and the input channels of one product
STAGES = 3  # of software pipelining: a multiprocessor of Hopper holds two programs, that of a later card one
SMALL_STEPS, SMALL_STAGES = 64, 6  # for batches with fewer tiles than multiprocessors
SMALL_SHARED = 160 * 1024  # bytes of shared memory for SMALL_STAGES; of Blackwell, only data centre cards have it


def aligned(channels: int) -> int:
    """The next multiple of 8, that is 16 bytes: descriptors and cuDNN's fast kernels need it."""
    return -(-channels // 8) * 8


def tiling(card: Card, tiles: int) -> tuple[int, int]:
    """The steps of a tile and the stages of its pipeline, for a result of `tiles` large tiles."""
    if tiles >= card.processors:
        return TILE_STEPS, STAGES
    return SMALL_STEPS, SMALL_STAGES if card.shared_memory >= SMALL_SHARED else STAGES


class PaddedConv(Conv):
    """cuDNN's convolution, its channels padded to a multiple of 8. Channels beyond the module's own are 0."""

    def __init__(self, module: Any, placement: Placement, gain: Tensor | None = None) -> None:
        super().__init__(module, placement, gain, FusedInstanceNorm)
        outputs, self.inputs = (aligned(size) for size in self.weight.shape[:2])
        more = (0, 0, 0, 0, 0, self.inputs - self.weight.shape[1], 0, outputs - self.weight.shape[0])
        self.weight = F.pad(self.weight, more).contiguous(memory_format=torch.channels_last)
        if self.bias is not None:
            self.bias = F.pad(self.bias, (0, outputs - len(self.bias)))

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        checkpoint()
        return super().__call__(F.pad(x, (0, self.inputs - x.shape[2])) if x.shape[2] < self.inputs else x, lengths)


class FusedConv(Conv):
    """One Triton kernel for the convolution and its residual. It leaves out the padding.

    `output` is the precision of the result, by default `placement`'s.
    """

    def __init__(
        self,
        module: Any,
        placement: Placement,
        card: Card,
        gain: Tensor | None = None,
        output: torch.dtype | None = None,
    ) -> None:
        weight = fuse_weight_norm(module)  # (out, in, taps)
        if gain is not None:
            weight = weight / gain.view(1, -1, 1)
        outputs, inputs, self.taps = weight.shape
        self.width = min(TILE_CHANNELS, max(16, 1 << (outputs - 1).bit_length()))
        whole = -(-outputs // self.width) * self.width
        weight = self._operands(F.pad(weight, (0, 0, 0, -inputs % TILE_DEPTH, 0, whole - outputs)), placement)
        self.inputs, self.outputs = weight.shape[1], aligned(outputs)
        self.weight = (
            weight.permute(2, 1, 0).flatten(0, 1).to(placement.device).contiguous()
        )  # (taps * inputs, outputs)
        bias = torch.zeros(outputs) if module.bias is None else module.bias.detach()
        self.bias = F.pad(bias.to(placement.device, torch.float32), (0, whole - outputs))
        self.padding, self.dilation, self.output = module.padding[0], module.dilation[0], output or placement.dtype
        self.card = card

    def _operands(self, weight: Tensor, placement: Placement) -> Tensor:
        """The weights in the precision of the products."""
        return weight.to(placement.dtype)

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        return self._run(x, lengths, None, 1.0, stats=False).x

    def add_residual(self, x: Tensor, base: Tensor, lengths: Lengths, scale: float = 1.0) -> Tensor:
        return self._run(x, lengths, base, scale, stats=False).x

    def conv_with_stats(self, x: Tensor, lengths: Lengths, base: Tensor | None = None) -> InstanceNorm:
        return self._run(x, lengths, base, 1.0, stats=True)

    def _run(self, x: Tensor, lengths: Lengths, base: Tensor | None, scale: float, *, stats: bool) -> FusedInstanceNorm:
        rows, time, channels = x.shape
        if channels % 8:
            x = F.pad(x, (0, aligned(channels) - channels))
        checkpoint()
        y = x.new_empty(rows, time, self.outputs, dtype=self.output)
        blocks = self.weight.shape[1] // self.width
        steps, stages = tiling(self.card, rows * -(-time // TILE_STEPS) * blocks)
        tiles, tile = -(-time // steps), [1, steps, self.width]
        parts = y.new_empty(rows, tiles, 2, self.outputs, dtype=torch.float32) if stats else None
        out = kernels.descriptor(y, tile)
        kernels.conv1d[(tiles * blocks, rows)](
            kernels.descriptor(x, [1, steps, TILE_DEPTH]),
            kernels.descriptor(self.weight, [TILE_DEPTH, self.width]),
            out,
            out if base is None else kernels.descriptor(base, tile),
            self.bias, self.bias if parts is None else parts, *kernel_args(lengths), self.dilation, self.padding, scale,
            tiles, self.outputs, self.inputs, blocks, self.taps, base is not None, stats, steps, self.width, TILE_DEPTH,
            num_stages=stages,
        )  # fmt: skip
        return FusedInstanceNorm(y, lengths, parts, steps)


class SplitConv(FusedConv):
    """Splits signals of single precision into two halves; weights too, unless `half_weights`."""

    def __init__(self, module: Any, placement: Placement, card: Card, *, half_weights: bool) -> None:
        self.parts = 2 if half_weights else 3
        super().__init__(module, placement, card)

    def _operands(self, weight: Tensor, placement: Placement) -> Tensor:  # noqa: ARG002
        high, low = split_fp16(weight)
        return torch.cat([high, high, low][: self.parts], 1)

    def _run(self, x: Tensor, lengths: Lengths, base: Tensor | None, scale: float, *, stats: bool) -> FusedInstanceNorm:
        parts = split_activations(x, self.parts, self.inputs // self.parts, self.inputs)
        return super()._run(parts, lengths, base, scale, stats=stats)
