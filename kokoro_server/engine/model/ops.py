"""The operations that the forward pass is made of, as torch computes them on any device.

`cuda.kernels.ops.CudaOps` and `cpu.traced_ops.TracedOps` replace the operations that they compute otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.model.harmonic_source import STFT, HarmonicSource, InverseSTFT
from kokoro_server.engine.model.layers import BiLSTM, Conv, InstanceNorm, Linear, Upsample
from kokoro_server.engine.model.lengths import Lengths, Placement


class Ops:
    harmonic_source: type[HarmonicSource] = HarmonicSource
    stft: type[STFT] = STFT
    istft: type[InverseSTFT] = InverseSTFT
    instance_norm: type[InstanceNorm] = InstanceNorm

    def linear(self, weight: Tensor, bias: Tensor, placement: Placement) -> Linear:
        return Linear(weight, bias, placement)

    def conv(self, module: Any, placement: Placement, gain: Tensor | None = None) -> Conv:
        return Conv(module, placement, gain)

    def snake_conv(self, module: Any, placement: Placement, gain: Tensor) -> Conv:
        """A convolution after a snake."""
        return self.conv(module, placement, gain)

    def conv_fp32_activations(self, module: Any, placement: Placement, weights: torch.dtype) -> Conv:  # noqa: ARG002
        """A convolution whose signals must not be rounded to half precision; its weights may be, to `weights`."""
        return self.conv(module, placement)

    def output_conv(self, module: Any, placement: Placement, wave: Placement) -> Conv:  # noqa: ARG002
        """The generator's last convolution. Its result is better kept in `wave`'s precision."""
        return self.conv(module, placement)

    def upsample(self, module: Any, placement: Placement) -> Upsample:
        return Upsample(module, placement)

    def lstm(self, module: Any, placement: Placement) -> BiLSTM:
        return BiLSTM(module, placement)

    def leaky_mean(self, parts: Iterable[Tensor], slope: float, lengths: Lengths) -> Tensor:
        """The leaky ReLU of the parts' mean, 0 in the padding, in `lengths`' precision. May overwrite the parts."""
        rest = iter(parts)
        mean, count = next(rest), 1
        for part in rest:
            mean, count = mean.add_(part), count + 1
        if count > 1:
            mean.div_(count)
        return lengths.mask_(F.leaky_relu(mean, slope)).to(lengths.placement.dtype)
