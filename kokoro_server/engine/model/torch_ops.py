"""The operations of the forward pass as torch computes them, on any device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.model.harmonic_source import STFT, HarmonicSource, InverseSTFT
from kokoro_server.engine.model.layers import BiLSTM, Conv, InstanceNorm, Linear, Upsample
from kokoro_server.engine.model.lengths import Lengths, Placement


class TorchOps:
    """`ops.Ops`."""

    def linear(self, weight: Tensor, bias: Tensor, placement: Placement) -> Linear:
        return Linear(weight, bias, placement)

    def conv(self, module: Any, placement: Placement, gain: Tensor | None = None) -> Conv:
        return Conv(module, placement, gain)

    def conv_fp32_activations(self, module: Any, placement: Placement, weights: torch.dtype) -> Conv:  # noqa: ARG002
        return Conv(module, placement)

    def output_conv(self, module: Any, placement: Placement, wave: Placement) -> Conv:  # noqa: ARG002
        return Conv(module, placement)

    def upsample(self, module: Any, placement: Placement) -> Upsample:
        return Upsample(module, placement)

    def lstm(self, module: Any, placement: Placement) -> BiLSTM:
        return BiLSTM(module, placement)

    def harmonic_source(self, module: Any, wave: Placement, phase_dtype: torch.dtype | None) -> HarmonicSource:
        return HarmonicSource(module, wave, phase_dtype)

    def stft(self, placement: Placement, wave: Placement) -> STFT:
        return STFT(placement, wave)

    def istft(self, wave: Placement) -> InverseSTFT:
        return InverseSTFT(wave)

    def instance_norm(self, x: Tensor, lengths: Lengths) -> InstanceNorm:
        return InstanceNorm(x, lengths)

    def leaky_mean(self, parts: Iterable[Tensor], slope: float, lengths: Lengths) -> Tensor:
        rest = iter(parts)
        mean, count = next(rest), 1
        for part in rest:
            mean, count = mean.add_(part), count + 1
        if count > 1:
            mean.div_(count)
        return lengths.mask_(F.leaky_relu(mean, slope)).to(lengths.placement.dtype)
