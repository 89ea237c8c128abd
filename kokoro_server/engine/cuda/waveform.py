"""The source, its spectrum and the inverse transform on an NVIDIA GPU, one kernel each."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.cuda import triton_kernels as kernels
from kokoro_server.engine.cuda.conv import aligned
from kokoro_server.engine.model.harmonic_source import BINS, EDGE, HOP, OVERLAP, STEP, WINDOW, Inverse, Source, Spectrum
from kokoro_server.engine.model.lengths import Place, Span, lengths
from kokoro_server.engine.protocol import SAMPLE_RATE

TABLE = 16  # bins, or samples of a hop, in a table's line


class FusedSource(Source):
    def __init__(self, module: Any, place: Place, phase_dtype: torch.dtype | None = None) -> None:
        super().__init__(module, place, phase_dtype)
        self.hiss = float(self.weight.norm())

    def __call__(self, f0: Tensor, noise: Tensor) -> Tensor:
        if noise.dim() != 2:
            return super().__call__(f0, noise)
        rows, steps = f0.shape
        cycles = (f0.to(self.harmonics.dtype)[..., None] * self.harmonics[:, 0] / SAMPLE_RATE) % 1  # per sample
        turns = cycles.cumsum(1) * STEP
        delta = F.pad(cycles[:, 1:] * STEP, (0, 0, 0, 1)).float()
        y = torch.empty_like(noise)
        kernels.excite[(math.ceil(steps * STEP / 512), rows)](
            f0, (turns - turns.floor()).float(), delta, noise, self.weight, self.bias, y, steps,
            self.amplitude, self.noise_level, self.hiss, self.threshold, STEP, len(self.weight), 512,
        )  # fmt: skip
        return y


class FusedSpectrum(Spectrum):
    """In half precision, gives zeros up to a multiple of 8 channels."""

    def __init__(self, place: Place, wave: Place) -> None:
        super().__init__(place, wave)
        real, imaginary = self.basis[:, :BINS], F.pad(self.basis[:, BINS:], (1, 1))
        self.tables = [F.pad(part, (0, TABLE - BINS)).contiguous() for part in (real, imaginary)]

    def __call__(self, signal: Tensor, span: Span) -> Tensor:
        rows, samples = signal.shape
        wide = aligned(2 * BINS) if self.place.dtype.itemsize == 2 else 2 * BINS
        y = signal.new_empty(rows, samples // HOP + 1, wide, dtype=self.place.dtype)
        kernels.analyse[(math.ceil(y.shape[1] / 64), rows)](
            signal, *self.tables, y, *lengths(span.scaled(STEP)), samples, y.shape[1], WINDOW, HOP, BINS, wide, 64
        )
        return y


class FusedInverse(Inverse):
    def __init__(self, wave: Place) -> None:
        super().__init__(wave)
        parts = self.basis.view(2, BINS, OVERLAP, HOP).transpose(1, 2)  # (2, OVERLAP, BINS, HOP)
        self.tables = list(F.pad(parts, (0, TABLE - HOP, 0, TABLE - BINS)).float().contiguous().unbind(0))
        self.window = F.pad(self.envelope.view(OVERLAP, HOP), (0, TABLE - HOP)).float().contiguous()

    def __call__(self, x: Tensor, span: Span) -> Tensor:
        rows, time, wide = x.shape
        samples = (time + OVERLAP - 1) * HOP - 2 * EDGE
        y = x.new_empty(rows, samples, dtype=torch.float32)
        kernels.synthesise[(math.ceil((time + OVERLAP - 1) / 64), rows)](
            x, *self.tables, self.window, y, *lengths(span), time, samples, WINDOW, HOP, BINS, wide, 64
        )
        return y
