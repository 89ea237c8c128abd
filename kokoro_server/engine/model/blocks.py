"""The two residual blocks of the decoder, batched."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.model.layers import AdaINParams, Conv, InstanceNorm, StyleProjections, Upsample2x
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.model.ops import Ops

SQRT_HALF = 0.5**0.5


class AdaINResBlock:
    """kokoro's `AdainResBlk1d`: two convolutions with an adaptive norm before each; may double the rate.

    Some channels hardly change over a sentence. A norm amplifies their rounding error as much as the sound of the rest,
    so signals are in single precision, whatever the precision of the weights.
    """

    def __init__(
        self, module: Any, projections: StyleProjections, ops: Ops, placement: Placement, weights: torch.dtype
    ) -> None:
        self.norms = (projections.add(module.norm1), projections.add(module.norm2))
        self.ops = ops

        def conv(part: Any) -> Conv:
            return ops.conv_fp32_activations(part, placement, weights)

        self.convs = (conv(module.conv1), conv(module.conv2))
        self.shortcut = conv(module.conv1x1) if module.learned_sc else None
        self.upsample = Upsample2x(module.pool, placement) if module.upsample_type != "none" else None

    def __call__(self, x: Tensor, styles: list[AdaINParams], lengths: Lengths) -> tuple[Tensor, Lengths]:
        """Returns the signal and its new lengths."""
        first, second = styles[self.norms[0]], styles[self.norms[1]]
        y = self.ops.instance_norm(x, lengths).leaky(first)
        if self.upsample:
            lengths = lengths.scaled(2)
            y = lengths.mask_(self.upsample(y))  # its bias would leak one step past the end
            x = x[:, :, None].expand(-1, -1, 2, -1).flatten(1, 2)
        if self.shortcut:
            x = self.shortcut(x, lengths)
        y = self.convs[0].conv_with_stats(y, lengths).leaky(second)
        return self.convs[1].add_residual(y, x, lengths, SQRT_HALF), lengths


class SnakeResBlock:
    """kokoro's `AdaINResBlock1`: three times two dilated convolutions, each after an adaptive norm and a snake.

    snake(y) = y + sin²(αy) / α = (z + sin² z) / α with z = αy: α goes into the norm before it, 1 / α into the weights
    of the convolution after it.
    """

    def __init__(self, module: Any, projections: StyleProjections, ops: Ops, placement: Placement) -> None:
        self.ops = ops
        self.steps = []
        for norms, convs, alphas in zip(
            zip(module.adain1, module.adain2, strict=True),
            zip(module.convs1, module.convs2, strict=True),
            zip(module.alpha1, module.alpha2, strict=True),
            strict=True,
        ):
            gains = [alpha.detach() for alpha in alphas]
            self.steps.append(
                [
                    (projections.add(norm, gain), ops.snake_conv(conv, placement, gain))
                    for norm, conv, gain in zip(norms, convs, gains, strict=True)
                ]
            )

    def __call__(
        self, x: Tensor, styles: list[AdaINParams], lengths: Lengths, norm: InstanceNorm | None = None
    ) -> Tensor:
        """`norm` is the norm of `x`, if the caller has it already."""
        signal = norm or self.ops.instance_norm(x, lengths)
        for (first, conv), (second, last) in self.steps:
            x, signal = signal.x, conv.of_snake(signal, styles[first], lengths)
            signal = last.of_snake(signal, styles[second], lengths, x)
        return signal.x
