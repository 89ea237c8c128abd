"""The parts of the forward pass as torch computes them, on any device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.model.harmonic_source import Inverse, Source, Spectrum
from kokoro_server.engine.model.layers import BiLSTM, Conv, Linear, Standard, Upsample
from kokoro_server.engine.model.lengths import Place, Span


class Plain:
    """`places.Kernels`."""

    def linear(self, weight: Tensor, bias: Tensor, place: Place) -> Linear:
        return Linear(weight, bias, place)

    def conv(self, module: Any, place: Place, gain: Tensor | None = None) -> Conv:
        return Conv(module, place, gain)

    def fine_conv(self, module: Any, place: Place, weights: torch.dtype) -> Conv:  # noqa: ARG002
        return Conv(module, place)

    def last_conv(self, module: Any, place: Place, wave: Place) -> Conv:  # noqa: ARG002
        return Conv(module, place)

    def upsample(self, module: Any, place: Place) -> Upsample:
        return Upsample(module, place)

    def lstm(self, module: Any, place: Place) -> BiLSTM:
        return BiLSTM(module, place)

    def source(self, module: Any, wave: Place, phase_dtype: torch.dtype | None) -> Source:
        return Source(module, wave, phase_dtype)

    def spectrum(self, place: Place, wave: Place) -> Spectrum:
        return Spectrum(place, wave)

    def inverse(self, wave: Place) -> Inverse:
        return Inverse(wave)

    def standard(self, x: Tensor, span: Span) -> Standard:
        return Standard(x, span)

    def leaky(self, parts: Iterable[Tensor], slope: float, span: Span) -> Tensor:
        rest = iter(parts)
        mean, count = next(rest), 1
        for part in rest:
            mean, count = mean.add_(part), count + 1
        if count > 1:
            mean.div_(count)
        return span.clear(F.leaky_relu(mean, slope)).to(span.place.dtype)
