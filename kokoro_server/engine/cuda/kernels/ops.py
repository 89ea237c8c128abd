"""The operations of the forward pass on an NVIDIA GPU: `Ops` by fewer and faster kernels.

Statistics, norms, activations, the harmonic source and both transforms are computed in single precision, whatever the
precision of the convolutions. A convolution of half precision on Hopper or later is one Triton kernel, which skips the
padding of shorter rows. On older cards it is cuDNN's, with its channels padded to a multiple of 8 for the fast kernels.
Durations and F0 depend only on single precision, or on two halves for each number, on every card.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda.kernels import halo_conv
from kokoro_server.engine.cuda.kernels import triton_kernels as kernels
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.conv import FusedConv, PaddedConv, SplitConv
from kokoro_server.engine.cuda.kernels.eight_bits import ByteConv
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.cuda.kernels.linear import SplitLinear
from kokoro_server.engine.cuda.kernels.lstm import FusedLSTM
from kokoro_server.engine.cuda.kernels.norm import FusedInstanceNorm
from kokoro_server.engine.cuda.kernels.waveform import FusedHarmonicSource, FusedInverseSTFT, FusedSTFT
from kokoro_server.engine.model.layers import BiLSTM, Conv, Linear, Upsample
from kokoro_server.engine.model.lengths import Lengths, Placement, kernel_args
from kokoro_server.engine.model.ops import Ops
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME


class FusedUpsample(Upsample):
    def __call__(self, x: Tensor, base: Tensor, extra: int, lengths: Lengths) -> Tensor:
        checkpoint()
        taps, y = x @ self.weight, torch.empty_like(base)
        checkpoint()
        kernels.overlap_add[(-(-y.shape[1] // 32), len(y))](
            taps, base, self.bias, y, *kernel_args(lengths), x.shape[1], y.shape[1], self.padding, extra,
            self.stride, self.channels, 32,
        )  # fmt: skip
        return y


class CudaOps(Ops):
    """`split`: compute products of single precision by products of half precision. `in_bytes`: those of the snakes'
    convolutions in 8 bits; see `eight_bits`. `halo`: by Hopper's own products, where the card has them; see
    `halo_conv`.
    """

    harmonic_source = FusedHarmonicSource
    stft = FusedSTFT
    istft = FusedInverseSTFT
    instance_norm = FusedInstanceNorm

    def __init__(self, card: Card, *, split: bool = True, in_bytes: bool = False, halo: bool = True) -> None:
        self.card = card
        self.split = split
        self.halo = halo and card.has_halo_products
        self.in_bytes = in_bytes

    def linear(self, weight: Tensor, bias: Tensor, placement: Placement) -> Linear:
        return (SplitLinear if self.split else Linear)(weight, bias, placement)

    def conv(self, module: Any, placement: Placement, gain: Tensor | None = None) -> Conv:
        if placement.dtype.itemsize > 2:
            return Conv(module, placement, gain, FusedInstanceNorm)
        if self.card.has_descriptors and keeps_length(module):
            return FusedConv(module, placement, self.card, gain)
        return PaddedConv(module, placement, gain)

    def snake_conv(self, module: Any, placement: Placement, gain: Tensor) -> Conv:
        halo = self.halo and halo_conv.takes(module, placement)
        if self.in_bytes and ByteConv.takes(module):
            return (halo_conv.HaloByteConv if halo else ByteConv)(module, placement, self.card, gain)
        return halo_conv.HaloConv(module, placement, self.card, gain) if halo else self.conv(module, placement, gain)

    def conv_fp32_activations(self, module: Any, placement: Placement, weights: torch.dtype) -> Conv:
        if self.split and self.card.has_descriptors and keeps_length(module):
            return SplitConv(module, placement, self.card, half_weights=weights.itemsize == 2)
        return Conv(module, placement, norm=FusedInstanceNorm)

    def output_conv(self, module: Any, placement: Placement, wave: Placement) -> Conv:
        if placement.dtype.itemsize > 2 or not self.card.has_descriptors:
            return self.conv(module, placement)
        return FusedConv(module, placement, self.card, output=wave.dtype)

    def upsample(self, module: Any, placement: Placement) -> Upsample:
        return FusedUpsample(module, placement)

    def lstm(self, module: Any, placement: Placement) -> BiLSTM:
        return FusedLSTM(module, placement, self.card, split=self.split)

    def leaky_mean(self, parts: Iterable[Tensor], slope: float, lengths: Lengths) -> Tensor:
        tensors = list(parts)
        checkpoint()
        if len(tensors) not in (1, 3):
            tensors = [torch.stack(tensors).mean(0)]
        first, middle, last = tensors[0], tensors[len(tensors) // 2], tensors[-1]
        rows, time, channels = first.shape
        y = torch.empty_like(first, dtype=lengths.placement.dtype)
        kernels.leaky_mean[(-(-time // 32), rows)](
            first, middle, last, y, *kernel_args(lengths), time, slope, channels, len(tensors), 32
        )
        return y


def keeps_length(module: Any) -> bool:
    reach: int = module.dilation[0] * (module.kernel_size[0] - 1)
    return bool(module.stride[0] == 1 and 2 * module.padding[0] == reach)


def try_out(device: torch.device) -> None:
    """Compile and launch a kernel on the device. Raises the error that prevents it."""
    with torch.cuda.device(device):
        gaussian_noise(torch.zeros(1, dtype=torch.int64, device=device), 16 * SAMPLES_PER_FRAME)
        torch.cuda.synchronize(device)  # a kernel reports its failure late


def gaussian_noise(seeds: Tensor, samples: int) -> Tensor:
    """Gaussian noise (rows, samples) for 64-bit seeds (rows,). A longer sample begins with the shorter of its seed."""
    y = torch.empty(len(seeds), samples, device=seeds.device)
    kernels.gaussian_noise[(math.ceil(samples / 1024), len(seeds))](seeds, y, samples, 1024)
    return y
