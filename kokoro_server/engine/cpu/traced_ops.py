"""The operations of the forward pass as they are traced for ONNX: one row, no padding, any length.

`Conv`, `Snake` and `Leaky` are nodes of the domain `kokoro`, which `lowering` replaces by operators of onnxruntime. The
`forward` of each function defines its node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_server.engine.model.harmonic_source import BINS, EDGE, HOP, OVERLAP, STEP, STFT, HarmonicSource, InverseSTFT
from kokoro_server.engine.model.layers import EPSILON, AdaINParams, InstanceNorm, fuse_weight_norm
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.model.ops import Ops
from kokoro_server.engine.protocol import SAMPLE_RATE

DOMAIN = "kokoro"


class SingleRow(Lengths):
    """One row that fills its tensors. `size` may be a traced number."""

    def __init__(self, size: int, placement: Placement) -> None:
        super().__init__((size,), size, placement)

    def scaled(self, factor: int, extra: int = 0) -> SingleRow:
        return SingleRow(self.size * factor + extra, self.placement)

    def at(self, placement: Placement) -> SingleRow:
        return SingleRow(self.size, placement)

    @property
    def mask(self) -> Any:
        return 1

    @property
    def padded(self) -> bool:
        return False

    def mask_(self, x: Tensor) -> Tensor:
        return x


def same(x: Any, y: Any) -> Any:
    """Declare that `y` has the type and shape of `x`. Returns `y`."""
    return y.setType(x.type())


class ConvNode(torch.autograd.Function):
    """`nn.Conv1d` over (1, time, channels)."""

    @staticmethod
    def forward(
        _: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, dilation: int, _name: str
    ) -> Tensor:
        return F.conv1d(x.transpose(1, 2), weight, bias, stride, padding, dilation).transpose(1, 2).contiguous()

    @staticmethod
    def symbolic(g: Any, x: Any, weight: Any, bias: Any, stride: int, padding: int, dilation: int, name: str) -> Any:
        y = g.op(
            f"{DOMAIN}::Conv", x, weight, bias, stride_i=stride, padding_i=padding, dilation_i=dilation, label_s=name
        )
        return y.setType(x.type().with_sizes([1, None, bias.type().sizes()[0]]))


class SnakeNode(torch.autograd.Function):
    """2 (z + sin² z) = 2z - cos 2z + 1, where z is `x`, each channel normed over time, times `scale` plus `shift`."""

    @staticmethod
    def forward(_: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        twice = 2 * styled(x, scale, shift)
        return twice - torch.cos(twice) + 1

    @staticmethod
    def symbolic(g: Any, x: Any, scale: Any, shift: Any) -> Any:
        return same(x, g.op(f"{DOMAIN}::Snake", x, scale, shift))


class LeakyNode(torch.autograd.Function):
    """leaky(z), a leaky ReLU of slope 0.2, where z is the same as in `SnakeNode`."""

    @staticmethod
    def forward(_: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return F.leaky_relu(styled(x, scale, shift), 0.2)

    @staticmethod
    def symbolic(g: Any, x: Any, scale: Any, shift: Any) -> Any:
        return same(x, g.op(f"{DOMAIN}::Leaky", x, scale, shift))


def styled(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred * (scale * torch.rsqrt(centred.square().mean(1, keepdim=True) + EPSILON)) + shift


class TracedInstanceNorm(InstanceNorm):
    def leaky(self, style: AdaINParams) -> Tensor:
        y: Tensor = LeakyNode.apply(self.x, style.scale, style.shift)  # type: ignore[no-untyped-call]
        return y

    def snake(self, style: AdaINParams) -> Tensor:
        """Twice the snake: `TracedConv` halves it."""
        y: Tensor = SnakeNode.apply(self.x, style.scale, style.shift)  # type: ignore[no-untyped-call]
        return y


class TracedConv:
    """`layers.Conv`. After a snake it has a `gain` and halves its weights: see `TracedInstanceNorm.snake`."""

    def __init__(self, module: Any, placement: Placement, gain: Tensor | None, name: str) -> None:
        self.name = name
        weight = fuse_weight_norm(module)  # (out, in, taps)
        self.weight = placement(weight if gain is None else weight / (2 * gain.view(1, -1, 1)))
        self.bias = placement(torch.zeros(module.out_channels) if module.bias is None else module.bias)
        self.stride, self.padding, self.dilation = module.stride[0], module.padding[0], module.dilation[0]

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:  # noqa: ARG002
        y: Tensor = ConvNode.apply(  # type: ignore[no-untyped-call]
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.name
        )
        return y

    def add_residual(self, x: Tensor, base: Tensor, lengths: Lengths, scale: float = 1.0) -> Tensor:
        y = self(x, lengths) + base
        return y if scale == 1.0 else y * scale

    def conv_with_stats(self, x: Tensor, lengths: Lengths, base: Tensor | None = None) -> InstanceNorm:
        return TracedInstanceNorm(self(x, lengths) if base is None else self.add_residual(x, base, lengths), lengths)

    def of_snake(
        self, signal: InstanceNorm, style: AdaINParams, lengths: Lengths, base: Tensor | None = None
    ) -> InstanceNorm:
        return self.conv_with_stats(signal.snake(style), lengths, base)


class TracedUpsample:
    """`layers.Upsample` as a convolution of two taps: a new step depends on the two old ones beside it."""

    def __init__(self, module: Any, placement: Placement, name: str) -> None:
        weight = fuse_weight_norm(module)  # (in, out, 2 * stride)
        self.stride, self.padding, self.name = module.stride[0], module.padding[0], name
        self.channels = int(weight.shape[1])
        after, before = weight[:, :, : self.stride], weight[:, :, self.stride :]
        taps = torch.stack([before, after], 3)  # (in, out, stride, 2)
        self.weight = placement(taps.permute(2, 1, 0, 3).reshape(self.stride * self.channels, -1, 2))
        self.bias = placement(module.bias.repeat(self.stride))

    def __call__(self, x: Tensor, base: Tensor, extra: int, lengths: Lengths) -> Tensor:  # noqa: ARG002
        y: Tensor = ConvNode.apply(x, self.weight, self.bias, 1, 1, 1, self.name)  # type: ignore[no-untyped-call]
        y = y.reshape(1, -1, self.channels)[:, self.padding : self.padding - self.stride]
        if extra:
            y = torch.cat([y[:, step : step + 1] for step in range(extra, 0, -1)] + [y], 1)
        return base + y


class TracedLSTM:
    def __init__(self, module: nn.LSTM) -> None:
        self.lstm = module

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:  # noqa: ARG002
        output: Tensor = self.lstm(x)[0]
        return output


class TracedHarmonicSource(HarmonicSource):
    def __call__(self, f0: Tensor, noise: Tensor) -> Tensor:
        voiced = self.voiced(f0).to(self.placement.dtype)[..., None].expand(-1, -1, STEP).reshape(1, -1)
        level = voiced * (self.noise_level - self.amplitude / 3) + self.amplitude / 3
        tone = (self.weight @ self._sines(f0)) * self.amplitude
        return torch.tanh(tone * voiced + level * (noise * self.weight.norm()) + self.bias)

    def _sines(self, f0: Tensor) -> Tensor:
        """Cycles are summed in double precision; the sine of their fraction is computed in single precision."""
        cycles = f0.double()[:, None] * self.harmonics / SAMPLE_RATE
        sums = (cycles - cycles.floor()).cumsum(2) * STEP  # (1, harmonics, steps)
        before = torch.cat([sums[..., :1], sums[..., :-1]], 2)[..., None]
        after = torch.cat([sums[..., 1:], sums[..., -1:]], 2)[..., None]
        here = sums[..., None]
        offset = (torch.arange(STEP, dtype=torch.float64) + 0.5) / STEP - 0.5
        rising, falling = offset[STEP // 2 :], -offset[: STEP // 2]  # from the middle of a step on; up to it
        early, late = here + (before - here) * falling, here + (after - here) * rising
        phase = torch.cat([early, late], 3).reshape(1, len(self.harmonics), -1)
        turns = (phase - phase.floor()).to(self.placement.dtype)
        return torch.sin(turns * (2 * math.pi))


class TracedSTFT(STFT):
    def __call__(self, signal: Tensor, lengths: Lengths) -> Tensor:  # noqa: ARG002
        head = torch.stack([signal[:, step] for step in range(EDGE, 0, -1)], 1)
        tail = torch.stack([signal[:, -1 - step] for step in range(1, EDGE + 1)], 1)
        hops = torch.cat([head, signal, tail], 1).reshape(1, -1, HOP)
        parts = [hops[:, part : hops.shape[1] - (OVERLAP - 1 - part)] for part in range(OVERLAP)]
        spectrum = (torch.cat(parts, 2).to(self.basis.dtype) @ self.basis).to(self.wave.dtype)
        real, imaginary = spectrum[..., :BINS], F.pad(spectrum[..., BINS:], (1, 1))
        return torch.cat([torch.sqrt(real * real + imaginary * imaginary), angle(imaginary, real)], 2)


def angle(y: Tensor, x: Tensor) -> Tensor:
    """atan2. The exporter's own gives -π where y is 0 and x negative."""
    around = torch.atan(y / torch.where(x == 0, torch.full_like(x, 1e-30), x))
    turned = torch.where(y >= 0, around + math.pi, around - math.pi)
    return torch.where(x < 0, turned, around)


class TracedInverseSTFT(InverseSTFT):
    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:  # noqa: ARG002
        magnitude, phase = x[..., :BINS].exp(), x[..., BINS : 2 * BINS].sin()
        spectrum = torch.cat([magnitude * phase.cos(), magnitude * phase.sin()], 2)
        signal = self._overlapped(spectrum @ self.basis)
        weight = self._overlapped(torch.ones_like(x[..., :1]) * self.envelope.reshape(1, 1, -1))
        return (signal / weight).reshape(1, -1)[:, EDGE:-EDGE]

    @staticmethod
    def _overlapped(frames: Tensor) -> Tensor:
        """(1, steps, WINDOW) to (1, steps + OVERLAP - 1, HOP)"""
        parts = torch.split(frames, HOP, 2)
        first, *rest = (F.pad(part, (0, 0, step, OVERLAP - 1 - step)) for step, part in enumerate(parts))
        return sum(rest, first)


class TracedOps(Ops):
    """For a trace of `model`, whose modules keep their names in it."""

    harmonic_source = TracedHarmonicSource
    stft = TracedSTFT
    istft = TracedInverseSTFT
    instance_norm = TracedInstanceNorm

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}

    def conv(self, module: Any, placement: Placement, gain: Tensor | None = None) -> Any:
        return TracedConv(module, placement, gain, self._names[id(module)])

    def upsample(self, module: Any, placement: Placement) -> Any:
        return TracedUpsample(module, placement, self._names[id(module)])

    def lstm(self, module: Any, placement: Placement) -> Any:  # noqa: ARG002
        return TracedLSTM(module)

    def leaky_mean(self, parts: Iterable[Tensor], slope: float, lengths: Lengths) -> Tensor:  # noqa: ARG002
        first, *rest = parts
        total = sum(rest, first)
        return F.leaky_relu(total / (1 + len(rest)) if rest else total, slope)
