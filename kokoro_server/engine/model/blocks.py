"""The two residual blocks of the decoder, batched."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.model.layers import Conv, Doubling, Modulation, Standard, StyleTable
from kokoro_server.engine.model.lengths import Place, Span

SQRT_HALF = 0.5**0.5


class StyledBlock:
    """`AdainResBlk1d`: two convolutions with a styled norm before each; may double the rate.

    Some channels hardly change over a sentence, and a norm makes as much of their rounding as of another's sound: so
    signals are in single precision, whatever the weights are.
    """

    def __init__(self, module: Any, table: StyleTable, place: Place, weights: torch.dtype) -> None:
        self.norms = (table.add(module.norm1), table.add(module.norm2))
        self.kernels = place.kernels

        def conv(part: Any) -> Conv:
            return self.kernels.fine_conv(part, place, weights)

        self.convs = (conv(module.conv1), conv(module.conv2))
        self.shortcut = conv(module.conv1x1) if module.learned_sc else None
        self.doubling = Doubling(module.pool, place) if module.upsample_type != "none" else None

    def __call__(self, x: Tensor, styles: list[Modulation], span: Span) -> tuple[Tensor, Span]:
        """Returns the signal and the span it has now."""
        first, second = styles[self.norms[0]], styles[self.norms[1]]
        y = self.kernels.standard(x, span).leaky(first)
        if self.doubling:
            span = span.scaled(2)
            y = span.clear(self.doubling(y))  # its bias would leak one step past the end
            x = x[:, :, None].expand(-1, -1, 2, -1).flatten(1, 2)
        if self.shortcut:
            x = self.shortcut(x, span)
        y = self.convs[0].measured(y, span).leaky(second)
        return self.convs[1].onto(y, x, span, SQRT_HALF), span


class SnakeBlock:
    """`AdaINResBlock1`: three times two dilated convolutions, each after a styled norm and a snake.

    snake(y) = y + sin²(αy) / α = (z + sin² z) / α with z = αy: α goes into the norm before, 1 / α into the weights of
    the convolution after.
    """

    def __init__(self, module: Any, table: StyleTable, place: Place) -> None:
        self.kernels = place.kernels
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
                    (table.add(norm, gain), self.kernels.conv(conv, place, gain))
                    for norm, conv, gain in zip(norms, convs, gains, strict=True)
                ]
            )

    def __call__(self, x: Tensor, styles: list[Modulation], span: Span, standard: Standard | None = None) -> Tensor:
        """`standard` is that of `x` where the caller has it already."""
        signal = standard or self.kernels.standard(x, span)
        for (first, conv), (second, last) in self.steps:
            x, signal = signal.x, conv.measured(signal.snake(styles[first]), span)
            signal = last.measured(signal.snake(styles[second]), span, x)
        return signal.x
