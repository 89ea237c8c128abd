"""From aligned features, F0, energy and noise to samples: the decoder and its generator, batched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.model.blocks import SnakeBlock, StyledBlock
from kokoro_server.engine.model.layers import Modulation, StyleTable
from kokoro_server.engine.model.lengths import Place, Span


class Decoder:
    """Convolutions in `place`'s precision; the signals before the generator, the source, the styles and the last step
    to samples in `wave`'s.
    """

    def __init__(self, module: Any, place: Place, wave: Place, phase_dtype: torch.dtype | None = None) -> None:
        self.place, self.wave, self.table = place, wave, StyleTable(wave)
        self.f0_conv, self.energy_conv, self.residual = (
            wave.kernels.fine_conv(part, wave, place.dtype)
            for part in (module.F0_conv, module.N_conv, module.asr_res[0])
        )
        self.encode, *self.blocks = (
            StyledBlock(block, self.table, wave, place.dtype) for block in (module.encode, *module.decode)
        )
        self.generator = Generator(module.generator, self.table, place, wave, phase_dtype)

    def __call__(self, text: Tensor, f0: Tensor, energy: Tensor, style: Tensor, noise: Tensor, span: Span) -> Tensor:
        """`text` is (rows, frames, hidden); `f0` and `energy` (rows, 2 * frames); gives (rows, samples)."""
        span, styles, text = span.at(self.wave), self.table(style), text.to(self.wave.dtype)
        curves = [conv(x[..., None], span) for conv, x in ((self.f0_conv, f0), (self.energy_conv, energy))]
        x, _ = self.encode(torch.cat([text, *curves], 2), styles, span)
        residual = self.residual(text, span)
        for block in self.blocks:
            x, rate = block(torch.cat([x, residual, *curves], 2), styles, span)
        return self.generator(x, f0, styles, noise, rate.at(self.place))


class Stage:
    """One upsampling step of the generator: the signal and its share of the source, through three blocks at once."""

    def __init__(self, module: Any, index: int, table: StyleTable, place: Place) -> None:
        self.kernels = place.kernels
        self.source_conv = self.kernels.conv(module.noise_convs[index], place)
        self.source_block = SnakeBlock(module.noise_res[index], table, place)
        self.upsample = self.kernels.upsample(module.ups[index], place)
        kernels = module.num_kernels
        blocks = module.resblocks[index * kernels : (index + 1) * kernels]
        self.blocks = [SnakeBlock(block, table, place) for block in blocks]
        # The last stage runs at the spectrum's rate, which has one step more: a reflection at the front.
        self.extra = 1 if index == module.num_upsamples - 1 else 0

    def span(self, before: Span) -> Span:
        return before.scaled(self.upsample.stride, self.extra)

    def __call__(self, x: Tensor, spectrum: Tensor, styles: list[Modulation], span: Span) -> Iterator[Tensor]:
        """The blocks' results, of which the mean is meant. `span` is what `self.span` gives."""
        source = self.source_block(self.source_conv(spectrum, span), styles, span)
        x = self.upsample(x, source, self.extra, span)
        standard = self.kernels.standard(x, span)
        return (block(x, styles, span, standard) for block in self.blocks)


class Generator:
    def __init__(
        self, module: Any, table: StyleTable, place: Place, wave: Place, phase_dtype: torch.dtype | None
    ) -> None:
        self.kernels = place.kernels
        self.source = self.kernels.source(module.m_source, wave, phase_dtype)
        self.spectrum = self.kernels.spectrum(place, wave)
        self.stages = [Stage(module, index, table, place) for index in range(module.num_upsamples)]
        self.post = self.kernels.last_conv(module.conv_post, place, wave)
        self.inverse = self.kernels.inverse(wave)

    def __call__(self, x: Tensor, f0: Tensor, styles: list[Modulation], noise: Tensor, span: Span) -> Tensor:
        """`span` counts F0 values, two to a frame."""
        spectrum = self.spectrum(self.source(f0, noise), span)
        x = self.kernels.leaky([x], 0.1, span)
        for stage in self.stages:
            span = stage.span(span)
            slope = 0.01 if stage is self.stages[-1] else 0.1
            x = self.kernels.leaky(stage(x, spectrum, styles, span), slope, span)
        return self.inverse(self.post(x, span), span)
