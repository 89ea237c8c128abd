"""The harmonic source, its STFT and the inverse STFT on an NVIDIA GPU, one kernel each."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.cuda.kernels import triton_kernels as kernels
from kokoro_server.engine.cuda.kernels.conv import aligned
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.model.harmonic_source import (
    BINS,
    EDGE,
    HOP,
    OVERLAP,
    STEP,
    STFT,
    WINDOW,
    HarmonicSource,
    InverseSTFT,
)
from kokoro_server.engine.model.lengths import Lengths, Placement, kernel_args
from kokoro_server.engine.protocol import SAMPLE_RATE

TABLE = 16  # bins, or samples of a hop, in a line of a table


class FusedHarmonicSource(HarmonicSource):
    def __init__(self, module: Any, placement: Placement, phase_dtype: torch.dtype | None = None) -> None:
        super().__init__(module, placement, phase_dtype)
        self.noise_gain = float(self.weight.norm())

    def __call__(self, f0: Tensor, noise: Tensor) -> Tensor:
        if noise.dim() != 2:
            return super().__call__(f0, noise)
        checkpoint()
        rows, steps = f0.shape
        cycles = (f0.to(self.harmonics.dtype)[..., None] * self.harmonics[:, 0] / SAMPLE_RATE) % 1  # per sample
        turns = cycles.cumsum(1) * STEP
        delta = F.pad(cycles[:, 1:] * STEP, (0, 0, 0, 1)).float()
        y = torch.empty_like(noise)
        kernels.harmonic_source[(math.ceil(steps * STEP / 512), rows)](
            f0, (turns - turns.floor()).float(), delta, noise, self.weight, self.bias, y, steps,
            self.amplitude, self.noise_level, self.noise_gain, self.threshold, STEP, len(self.weight), 512,
        )  # fmt: skip
        return y


class FusedSTFT(STFT):
    """In half precision its result has channels of zeros, up to a multiple of 8."""

    def __init__(self, placement: Placement, wave: Placement) -> None:
        super().__init__(placement, wave)
        real, imaginary = self.basis[:, :BINS], F.pad(self.basis[:, BINS:], (1, 1))
        self.tables = [F.pad(part, (0, TABLE - BINS)).contiguous() for part in (real, imaginary)]

    def __call__(self, signal: Tensor, lengths: Lengths) -> Tensor:
        checkpoint()
        rows, samples = signal.shape
        width = aligned(2 * BINS) if self.placement.dtype.itemsize == 2 else 2 * BINS
        y = signal.new_empty(rows, samples // HOP + 1, width, dtype=self.placement.dtype)
        ends = kernel_args(lengths.scaled(STEP))
        kernels.stft[(math.ceil(y.shape[1] / 64), rows)](
            signal, *self.tables, y, *ends, samples, y.shape[1], WINDOW, HOP, BINS, width, 64
        )
        return y


class FusedInverseSTFT(InverseSTFT):
    def __init__(self, wave: Placement) -> None:
        super().__init__(wave)
        parts = self.basis.view(2, BINS, OVERLAP, HOP).transpose(1, 2)  # (2, OVERLAP, BINS, HOP)
        self.tables = list(F.pad(parts, (0, TABLE - HOP, 0, TABLE - BINS)).float().contiguous().unbind(0))
        self.window = F.pad(self.envelope.view(OVERLAP, HOP), (0, TABLE - HOP)).float().contiguous()

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        checkpoint()
        rows, time, width = x.shape
        samples = (time + OVERLAP - 1) * HOP - 2 * EDGE
        y = x.new_empty(rows, samples, dtype=torch.float32)
        kernels.istft[(math.ceil((time + OVERLAP - 1) / 64), rows)](
            x, *self.tables, self.window, y, *kernel_args(lengths), time, samples, WINDOW, HOP, BINS, width, 64
        )
        return y
