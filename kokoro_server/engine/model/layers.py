"""The layers of the batched forward pass. Every activation is (rows, time, channels), contiguous.

That is channels-last memory for a convolution, so a convolution sees it through a view, a linear layer needs no
transpose, and upsampling by a transposed convolution is one matrix product and a reshape.

Rows of a batch differ in length. Padding never reaches a row: statistics leave it out (`Lengths.mean`), and it is
zeroed (`Lengths.mask_`) before anything that looks at neighbouring time steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_server.engine.model.lengths import Lengths, Placement

EPSILON = 1e-5  # of every instance norm and adaptive layer norm
PAD_GATE = -1e4  # drives an LSTM gate to exactly 0
PAD_FEATURES = 8  # the pad flag takes one; a multiple of 8 keeps the matrix products aligned


def fuse_weight_norm(module: Any) -> Tensor:
    """The effective weight of a module, whose weight norm is fused into it if it has one."""
    if not hasattr(module, "weight_v"):
        weight: Tensor = module.weight
        return weight.detach()
    direction: Tensor = module.weight_v.detach()
    norm = direction.flatten(1).norm(dim=1).view(-1, 1, 1)
    scaled: Tensor = direction * (module.weight_g.detach() / norm)
    return scaled


class Linear:
    def __init__(self, weight: Tensor, bias: Tensor, placement: Placement) -> None:
        self.weight, self.bias = placement(weight), placement(bias)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Conv:
    """`nn.Conv1d` over (rows, time, channels). `gain` divides the weights of each input channel.

    `norm` is the class of what `conv_with_stats` returns.
    """

    def __init__(
        self, module: Any, placement: Placement, gain: Tensor | None = None, norm: type[InstanceNorm] | None = None
    ) -> None:
        self.norm = norm or InstanceNorm
        weight = fuse_weight_norm(module)  # (out, in, taps)
        if gain is not None:
            weight = weight / gain.view(1, -1, 1)
        self.weight = placement(weight).unsqueeze(3).contiguous(memory_format=torch.channels_last)
        self.bias = None if module.bias is None else placement(module.bias)
        self.stride, self.padding, self.dilation = module.stride[0], module.padding[0], module.dilation[0]

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:  # noqa: ARG002
        """`lengths` are the result's; its padding may hold anything."""
        image = x.unsqueeze(2).permute(0, 3, 1, 2)  # (rows, channels, time, 1) in channels-last memory: a view
        image = F.conv2d(image, self.weight, self.bias, (self.stride, 1), (self.padding, 0), (self.dilation, 1))
        return image.permute(0, 2, 3, 1).squeeze(2).contiguous()

    def add_residual(self, x: Tensor, base: Tensor, lengths: Lengths, scale: float = 1.0) -> Tensor:
        """`(conv(x) + base) * scale`."""
        y = self(x, lengths).add_(base)
        return y if scale == 1.0 else y.mul_(scale)

    def conv_with_stats(self, x: Tensor, lengths: Lengths, base: Tensor | None = None) -> InstanceNorm:
        """`conv(x) + base`, with the statistics that the next norm needs."""
        return self.norm(self(x, lengths) if base is None else self.add_residual(x, base, lengths), lengths)

    def of_snake(
        self, signal: InstanceNorm, style: AdaINParams, lengths: Lengths, base: Tensor | None = None
    ) -> InstanceNorm:
        """`conv_with_stats` of a norm's snake."""
        return self.conv_with_stats(signal.snake(style), lengths, base)


class Upsample:
    """`nn.ConvTranspose1d` whose kernel is twice its stride: one matrix product and one overlap-add."""

    def __init__(self, module: Any, placement: Placement) -> None:
        weight = fuse_weight_norm(module)  # (in, out, 2 * stride)
        self.stride, self.padding = module.stride[0], module.padding[0]
        if weight.shape[2] != 2 * self.stride:
            raise ValueError(f"kernel {weight.shape[2]} is not twice the stride {self.stride}")
        self.channels = weight.shape[1]
        self.weight = placement(weight.permute(0, 2, 1).flatten(1))  # (in, 2 * stride * out)
        self.bias = placement(module.bias)

    def __call__(self, x: Tensor, base: Tensor, extra: int, lengths: Lengths) -> Tensor:  # noqa: ARG002
        """`x` upsampled, `extra` steps reflected at its front, plus `base`. `lengths` are the result's."""
        y = self._upsampled(x)
        if extra:
            y = torch.cat([y[:, 1 : extra + 1].flip(1), y], 1)
        return base.add_(y)

    def _upsampled(self, x: Tensor) -> Tensor:
        rows, time, _ = x.shape
        half = self.stride * self.channels
        taps = x @ self.weight  # (rows, time, 2 * half): each step reaches into its own stride and the next
        out = self.bias.repeat(self.stride).expand(rows, time + 1, half).clone()
        out[:, :-1] += taps[..., :half]
        out[:, 1:] += taps[..., half:]
        out = out.view(rows, -1, self.channels)
        return out[:, self.padding : out.shape[1] - self.padding]


class Upsample2x:
    """The depthwise transposed convolution (3 taps, stride 2) that doubles the rate inside a residual block."""

    def __init__(self, module: Any, placement: Placement) -> None:
        self.taps = [placement(tap) for tap in fuse_weight_norm(module)[:, 0].unbind(1)]  # 3 of (channels,)
        self.bias = placement(module.bias)

    def __call__(self, x: Tensor) -> Tensor:
        left, centre, right = self.taps
        following = F.pad(x[:, 1:], (0, 0, 0, 1))
        even = x * centre + self.bias
        odd = x * right + following * left + self.bias
        return torch.stack([even, odd], 2).flatten(1, 2)


class BiLSTM:
    """A bidirectional LSTM over right-padded rows, without packing.

    An extra input flags padding and shuts the input and forget gates there, so the state is exactly 0 all through the
    padding: the backward direction enters a row's last step as it would if the row were alone.
    """

    def __init__(self, module: Any, placement: Placement) -> None:
        inputs, hidden = module.input_size, module.hidden_size
        self.lstm = nn.LSTM(inputs + PAD_FEATURES, hidden, batch_first=True, bidirectional=True)
        with torch.no_grad():
            for direction in ("", "_reverse"):
                weight = torch.zeros(4 * hidden, inputs + PAD_FEATURES, dtype=module.weight_ih_l0.dtype)
                weight[:, :inputs] = getattr(module, f"weight_ih_l0{direction}")
                weight[: 2 * hidden, inputs] = PAD_GATE  # the first two of the four gates: input, forget
                getattr(self.lstm, f"weight_ih_l0{direction}").data = weight
                for name in ("weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
                    getattr(self.lstm, name + direction).data = getattr(module, name + direction).detach().clone()
        self.lstm.to(device=placement.device, dtype=placement.dtype).requires_grad_(False)
        self.lstm.flatten_parameters()

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        output: Tensor = self.lstm(self.flagged(x, lengths))[0]
        return output  # (rows, time, 2 * hidden), 0 in padding

    @staticmethod
    def flagged(x: Tensor, lengths: Lengths) -> Tensor:
        flag = x.new_zeros(*x.shape[:2], PAD_FEATURES)
        flag[..., 0] = ~lengths.mask
        return torch.cat([x, flag], 2)


@dataclass(frozen=True)
class AdaINParams:
    """The scale and shift that a style gives one adaptive norm."""

    scale: Tensor  # (rows, 1, channels)
    shift: Tensor


class InstanceNorm:
    """A signal and its instance norm. Its mean and deviation over time are computed once, when first needed."""

    def __init__(self, x: Tensor, lengths: Lengths) -> None:
        self.x, self.lengths = x, lengths

    @cached_property
    def _statistics(self) -> tuple[Tensor, Tensor]:
        """The signal less its mean (rows, time, channels), and one over its deviation (rows, 1, channels)."""
        centred = self.x - self.lengths.mean(self.x)
        return centred, torch.rsqrt(self.lengths.mean(centred.square()) + EPSILON)

    def _styled(self, style: AdaINParams) -> Tensor:
        centred, inverse = self._statistics
        return torch.addcmul(style.shift, centred, style.scale * inverse)

    def leaky(self, style: AdaINParams) -> Tensor:
        """The normed signal, styled, through a leaky ReLU; 0 in the padding."""
        return self.lengths.mask_(F.leaky_relu_(self._styled(style), 0.2))

    def snake(self, style: AdaINParams) -> Tensor:
        """The normed signal, styled, through z + sin² z; 0 in the padding."""
        z = self._styled(style)
        sine = torch.sin(z)
        return self.lengths.mask_(z.addcmul_(sine, sine))


class StyleProjections:
    """The style projections of all adaptive norms of one part, as one matrix: one product per batch serves them all."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._weights: list[Tensor] = []
        self._biases: list[Tensor] = []

    def add(self, norm: Any, gain: Tensor | None = None) -> int:
        """Enter an AdaIN or AdaLayerNorm, its output multiplied by `gain`. Returns its index in a call's result."""
        weight, bias = norm.fc.weight.detach(), norm.fc.bias.detach()
        (scale_w, shift_w), (scale_b, shift_b) = weight.chunk(2), bias.chunk(2)
        scale_b = scale_b + 1
        affine = getattr(norm, "norm", None)
        if affine is not None:
            inner, offset = affine.weight.detach(), affine.bias.detach()
            shift_w, shift_b = shift_w + scale_w * offset[:, None], shift_b + scale_b * offset
            scale_w, scale_b = scale_w * inner[:, None], scale_b * inner
        factor = torch.ones_like(scale_b) if gain is None else gain.view(-1)
        self._weights += [scale_w * factor[:, None], shift_w * factor[:, None]]
        self._biases += [scale_b * factor, shift_b * factor]
        return len(self._weights) // 2 - 1

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(bias) for bias in self._biases]

    @cached_property
    def _matrix(self) -> tuple[Tensor, Tensor]:
        return self.placement(torch.cat(self._weights).t()), self.placement(torch.cat(self._biases))

    def __call__(self, style: Tensor) -> list[AdaINParams]:
        weight, bias = self._matrix
        parts = torch.split(torch.addmm(bias, style.to(weight.dtype), weight).unsqueeze(1), self._sizes, 2)
        return [AdaINParams(scale, shift) for scale, shift in zip(parts[::2], parts[1::2], strict=True)]
