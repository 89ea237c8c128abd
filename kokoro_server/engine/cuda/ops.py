"""The parts of the forward pass on an NVIDIA GPU: what `plain` does, by fewer and faster kernels.

Statistics are taken, and norms, activations, the source and both transforms computed, in single precision whatever the
precision of the convolutions. A convolution of half precision on Hopper or later is one Triton kernel, which skips the
padding of shorter rows; elsewhere it is cuDNN's, its channels padded to the multiple of 8 that its fast kernels need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda import triton_kernels as kernels
from kokoro_server.engine.cuda.conv import AlignedConv, FusedConv, SplitConv
from kokoro_server.engine.cuda.linear import SplitLinear
from kokoro_server.engine.cuda.lstm import FusedLSTM
from kokoro_server.engine.cuda.norm import FusedStandard
from kokoro_server.engine.cuda.waveform import FusedInverse, FusedSource, FusedSpectrum
from kokoro_server.engine.model.harmonic_source import Inverse, Source, Spectrum
from kokoro_server.engine.model.layers import BiLSTM, Conv, Linear, Standard, Upsample
from kokoro_server.engine.model.lengths import Place, Span, lengths
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME

HOPPER = (9, 0)  # the first with tensor descriptors in hardware


class FusedUpsample(Upsample):
    def __call__(self, x: Tensor, base: Tensor, extra: int, span: Span) -> Tensor:
        taps, y = x @ self.weight, torch.empty_like(base)
        kernels.overlap_add[(-(-y.shape[1] // 32), len(y))](
            taps, base, self.bias, y, *lengths(span), x.shape[1], y.shape[1], self.padding, extra,
            self.stride, self.channels, 32,
        )  # fmt: skip
        return y


class Fused:
    """`places.Kernels` for CUDA. `split` allows single precision to be made of products of halves."""

    def __init__(self, device: torch.device, *, split: bool = True) -> None:
        self.split = split
        self.hopper = torch.cuda.get_device_capability(device) >= HOPPER

    def linear(self, weight: Tensor, bias: Tensor, place: Place) -> Linear:
        return (SplitLinear if self.split else Linear)(weight, bias, place)

    def conv(self, module: Any, place: Place, gain: Tensor | None = None) -> Conv:
        if place.dtype.itemsize > 2:
            return Conv(module, place, gain)
        return (FusedConv if self.hopper and keeps_length(module) else AlignedConv)(module, place, gain)

    def fine_conv(self, module: Any, place: Place, weights: torch.dtype) -> Conv:
        if self.split and self.hopper and keeps_length(module):
            return SplitConv(module, place, half=weights.itemsize == 2)
        return Conv(module, place)

    def last_conv(self, module: Any, place: Place, wave: Place) -> Conv:
        if place.dtype.itemsize > 2 or not self.hopper:
            return self.conv(module, place)
        return FusedConv(module, place, output=wave.dtype)

    def upsample(self, module: Any, place: Place) -> Upsample:
        return FusedUpsample(module, place)

    def lstm(self, module: Any, place: Place) -> BiLSTM:
        return FusedLSTM(module, place, split=self.split)

    def source(self, module: Any, wave: Place, phase_dtype: torch.dtype | None) -> Source:
        return FusedSource(module, wave, phase_dtype)

    def spectrum(self, place: Place, wave: Place) -> Spectrum:
        return FusedSpectrum(place, wave)

    def inverse(self, wave: Place) -> Inverse:
        return FusedInverse(wave)

    def standard(self, x: Tensor, span: Span) -> Standard:
        return FusedStandard(x, span)

    def leaky(self, parts: Iterable[Tensor], slope: float, span: Span) -> Tensor:
        found = list(parts)
        if len(found) not in (1, 3):
            found = [torch.stack(found).mean(0)]
        first, middle, last = found[0], found[len(found) // 2], found[-1]
        rows, time, channels = first.shape
        y = torch.empty_like(first, dtype=span.place.dtype)
        kernels.leaky_mean[(-(-time // 32), rows)](
            first, middle, last, y, *lengths(span), time, slope, channels, len(found), 32
        )
        return y


def keeps_length(module: Any) -> bool:
    reach: int = module.dilation[0] * (module.kernel_size[0] - 1)
    return bool(module.stride[0] == 1 and 2 * module.padding[0] == reach)


def try_out(device: torch.device) -> None:
    """Compile and launch a kernel there, or raise what prevents it."""
    with torch.cuda.device(device):
        draw(torch.zeros(1, dtype=torch.int64, device=device), 16 * SAMPLES_PER_FRAME)


def draw(seeds: Tensor, samples: int) -> Tensor:
    """Gaussian noise (rows, samples) for 64-bit seeds (rows,); a longer draw begins with a shorter one."""
    y = torch.empty(len(seeds), samples, device=seeds.device)
    kernels.draw[(math.ceil(samples / 1024), len(seeds))](seeds, y, samples, 1024)
    return y
