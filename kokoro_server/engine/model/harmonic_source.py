"""The harmonic source, its STFT, and the inverse STFT that gives samples, batched."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.protocol import SAMPLE_RATE

STEP = 300  # samples per F0 value: half a duration frame
WINDOW = 20  # samples of the generator's STFT window
HOP = 5
EDGE = WINDOW // 2  # samples reflected at either end
BINS = WINDOW // 2 + 1
OVERLAP = WINDOW // HOP


def widest_float(device: torch.device) -> torch.dtype:
    """The precision of phase sums and of the source's spectrum; Apple's GPUs have no double."""
    return torch.float32 if device.type == "mps" else torch.float64


def hann() -> Tensor:
    return torch.hann_window(WINDOW, periodic=True, dtype=torch.float32).double()


class HarmonicSource:
    """Nine harmonics of F0 where voiced, noise everywhere, merged into one excitation.

    The phase is a sum over the whole utterance. In single precision, as in `kokoro.KModel`, its rounding grows to
    hundredths of a radian. In double precision, the default where the device has it, the rounding is negligible.
    """

    def __init__(self, module: Any, placement: Placement, phase_dtype: torch.dtype | None = None) -> None:
        sines = module.l_sin_gen
        if int(sines.upsample_scale) != STEP:
            raise ValueError(f"{sines.upsample_scale} samples per F0 value; this code knows {STEP}")
        self.placement = placement
        self.amplitude, self.noise_level = sines.sine_amp, sines.noise_std
        self.threshold = float(sines.voiced_threshold)
        self.weight = placement(module.l_linear.weight[0])  # (harmonics,)
        self.bias = placement(module.l_linear.bias)  # (1,)
        dtype = phase_dtype or widest_float(placement.device)
        self.harmonics = torch.arange(1, sines.dim + 1, device=placement.device, dtype=dtype)[:, None]

    def voiced(self, f0: Tensor) -> Tensor:
        return f0 > self.threshold

    def __call__(self, f0: Tensor, noise: Tensor) -> Tensor:
        """`f0` is (rows, steps), 0 in the padding; `noise` (rows, steps * STEP), or with one channel per harmonic.

        A weighted sum of independent Gaussians is a Gaussian, so one channel, scaled by the norm of the weights,
        stands for all of them.
        """
        voiced = self.voiced(f0).to(self.placement.dtype).repeat_interleave(STEP, 1)
        level = voiced * self.noise_level + (1 - voiced) * (self.amplitude / 3)
        hiss = noise * self.weight.norm() if noise.dim() == 2 else noise @ self.weight
        tone = (self.weight @ self._sines(f0)) * self.amplitude
        return torch.tanh(tone * voiced + level * hiss + self.bias)  # (rows, samples)

    def _sines(self, f0: Tensor) -> Tensor:
        """(rows, harmonics, samples). Where F0 is 0 the phase stands still, as it does past the end of a row alone."""
        cycles = (f0.to(self.harmonics.dtype)[:, None] * self.harmonics / SAMPLE_RATE) % 1  # per sample
        phase = cycles.cumsum(2) * 2 * math.pi * STEP
        return F.interpolate(phase, scale_factor=STEP, mode="linear").sin_().to(self.placement.dtype)


class STFT:
    """The short-time Fourier transform of the source: magnitude and phase, each row reflected at its own end."""

    def __init__(self, placement: Placement, wave: Placement) -> None:
        self.placement, self.wave = placement, wave
        angle = 2 * math.pi / WINDOW * torch.outer(torch.arange(WINDOW), torch.arange(BINS)).double()
        window = hann()[:, None]
        # No column for the imaginary part of the first and last bin: it is 0, and a -0 would turn their phase from π
        # to -π.
        basis = torch.cat([window * angle.cos(), -window * angle.sin()[:, 1:-1]], 1)
        self.basis = basis.to(placement.device, widest_float(placement.device))  # (WINDOW, BINS + BINS - 2)

    def __call__(self, signal: Tensor, lengths: Lengths) -> Tensor:
        """`lengths` count F0 values; returns (rows, samples / HOP + 1, 2 * BINS) in `placement`, 0 in the padding."""
        frames = self._reflected(signal, lengths.scaled(STEP)).unfold(1, WINDOW, HOP)
        # In double precision, because the phase of a faint bin would otherwise depend on how the product is blocked.
        spectrum = (frames.to(self.basis.dtype) @ self.basis).to(self.wave.dtype)
        real, imaginary = spectrum[..., :BINS], F.pad(spectrum[..., BINS:], (1, 1))
        polar = torch.cat([torch.hypot(real, imaginary), torch.atan2(imaginary, real)], 2)
        return lengths.scaled(STEP // HOP, 1).mask_(polar).to(self.placement.dtype)

    @staticmethod
    def _reflected(signal: Tensor, lengths: Lengths) -> Tensor:
        padded = torch.cat([signal[:, 1 : EDGE + 1].flip(1), signal, signal.new_zeros(len(signal), EDGE)], 1)
        back = torch.arange(EDGE, device=signal.device)
        ends = lengths.on_device[:, None]
        return padded.scatter_(1, ends + EDGE + back, signal.gather(1, ends - 2 - back))


class InverseSTFT:
    """The inverse STFT. Each row's edge is normalised by its own windows."""

    def __init__(self, placement: Placement) -> None:
        angle = 2 * math.pi / WINDOW * torch.outer(torch.arange(BINS), torch.arange(WINDOW)).double()
        twice = torch.full((BINS, 1), 2.0, dtype=torch.float64)  # a bin stands for its mirror image too,
        twice[0] = twice[-1] = 1  # but the first and the last have none
        window = hann()
        basis = torch.cat([angle.cos() * twice, -angle.sin() * twice]) / WINDOW * window
        self.basis = placement(basis)  # (2 * BINS, WINDOW)
        self.envelope = placement((window**2).view(OVERLAP, 1, HOP))

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        """`x` is (rows, steps, 2 * BINS or more): log magnitude and, through a sine, phase."""
        x = x.to(self.basis.dtype)
        magnitude, phase = x[..., :BINS].exp(), x[..., BINS : 2 * BINS].sin()
        spectrum = lengths.mask_(torch.cat([magnitude * phase.cos(), magnitude * phase.sin()], 2))
        frames = (spectrum @ self.basis).view(*x.shape[:2], OVERLAP, HOP)
        weights = lengths.mask.to(x.dtype)[..., None]  # (rows, steps, 1)
        signal = x.new_zeros(x.shape[0], x.shape[1] + OVERLAP - 1, HOP)
        weight = torch.zeros_like(signal)
        for part in range(OVERLAP):
            here = slice(part, part + x.shape[1])
            signal[:, here] += frames[:, :, part]
            weight[:, here] += weights * self.envelope[part]
        weight[weight == 0] = 1  # in the padding
        return (signal / weight).flatten(1)[:, EDGE:-EDGE]
