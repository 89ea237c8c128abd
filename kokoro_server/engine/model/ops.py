"""The operations that the forward pass is made of, by whatever computes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from kokoro_server.engine.model.harmonic_source import STFT, HarmonicSource, InverseSTFT
from kokoro_server.engine.model.layers import BiLSTM, Conv, InstanceNorm, Linear, Upsample
from kokoro_server.engine.model.lengths import Lengths, Placement


class Ops(Protocol):
    """`torch_ops.TorchOps` on any device, `cuda.ops.CudaOps` on an NVIDIA GPU, `cpu.traced_ops.TracedOps` for ONNX."""

    def linear(self, weight: Tensor, bias: Tensor, placement: Placement) -> Linear: ...

    def conv(self, module: Any, placement: Placement, gain: Tensor | None = None) -> Conv: ...

    def conv_fp32_activations(self, module: Any, placement: Placement, weights: torch.dtype) -> Conv:
        """A convolution whose signals must not be rounded to half precision; its weights may be, to `weights`."""
        ...

    def output_conv(self, module: Any, placement: Placement, wave: Placement) -> Conv:
        """The generator's last convolution. Its result is better kept in `wave`'s precision."""
        ...

    def upsample(self, module: Any, placement: Placement) -> Upsample: ...

    def lstm(self, module: Any, placement: Placement) -> BiLSTM: ...

    def harmonic_source(self, module: Any, wave: Placement, phase_dtype: torch.dtype | None) -> HarmonicSource: ...

    def stft(self, placement: Placement, wave: Placement) -> STFT: ...

    def istft(self, wave: Placement) -> InverseSTFT: ...

    def instance_norm(self, x: Tensor, lengths: Lengths) -> InstanceNorm: ...

    def leaky_mean(self, parts: Iterable[Tensor], slope: float, lengths: Lengths) -> Tensor:
        """The leaky ReLU of the mean of the parts, 0 in the padding, in the precision of `lengths`. May overwrite the
        parts.
        """
        ...
