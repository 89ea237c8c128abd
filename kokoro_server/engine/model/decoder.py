"""The decoder and its generator, batched: from aligned features, F0, energy and noise to samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.model.blocks import AdaINResBlock, SnakeResBlock
from kokoro_server.engine.model.layers import AdaINParams, StyleProjections
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.model.ops import Ops


class Decoder:
    """Convolutions have `placement`'s precision. The signals before the generator, the harmonic source, the styles and
    the inverse STFT have `wave`'s.
    """

    def __init__(
        self, module: Any, ops: Ops, placement: Placement, wave: Placement, phase_dtype: torch.dtype | None = None
    ) -> None:
        self.placement, self.wave, self.projections = placement, wave, StyleProjections(wave)
        self.f0_conv, self.energy_conv, self.residual = (
            ops.conv_fp32_activations(part, wave, placement.dtype)
            for part in (module.F0_conv, module.N_conv, module.asr_res[0])
        )
        self.encode, *self.blocks = (
            AdaINResBlock(block, self.projections, ops, wave, placement.dtype)
            for block in (module.encode, *module.decode)
        )
        self.generator = Generator(module.generator, self.projections, ops, placement, wave, phase_dtype)

    def __call__(
        self, text: Tensor, f0: Tensor, energy: Tensor, style: Tensor, noise: Tensor, lengths: Lengths
    ) -> Tensor:
        """`text` is (rows, frames, hidden); `f0` and `energy` (rows, 2 * frames); returns (rows, samples)."""
        lengths, styles, text = lengths.at(self.wave), self.projections(style), text.to(self.wave.dtype)
        curves = [conv(x[..., None], lengths) for conv, x in ((self.f0_conv, f0), (self.energy_conv, energy))]
        x, _ = self.encode(torch.cat([text, *curves], 2), styles, lengths)
        residual = self.residual(text, lengths)
        for block in self.blocks:
            x, rate = block(torch.cat([x, residual, *curves], 2), styles, lengths)
        return self.generator(x, f0, styles, noise, rate.at(self.placement))


class UpsampleStage:
    """One upsampling step of the generator. The signal and its share of the source go through three blocks at once."""

    def __init__(self, module: Any, index: int, projections: StyleProjections, ops: Ops, placement: Placement) -> None:
        self.ops = ops
        self.source_conv = ops.conv(module.noise_convs[index], placement)
        self.source_block = SnakeResBlock(module.noise_res[index], projections, ops, placement)
        self.upsample = ops.upsample(module.ups[index], placement)
        width = module.num_kernels
        blocks = module.resblocks[index * width : (index + 1) * width]
        self.blocks = [SnakeResBlock(block, projections, ops, placement) for block in blocks]
        # The last stage runs at the spectrum's rate, which has one step more: a reflection at the beginning.
        self.extra = 1 if index == module.num_upsamples - 1 else 0

    def lengths(self, before: Lengths) -> Lengths:
        return before.scaled(self.upsample.stride, self.extra)

    def __call__(self, x: Tensor, spectrum: Tensor, styles: list[AdaINParams], lengths: Lengths) -> Iterator[Tensor]:
        """The results of the blocks, whose mean is the stage's result. `lengths` come from `self.lengths`."""
        source = self.source_block(self.source_conv(spectrum, lengths), styles, lengths)
        x = self.upsample(x, source, self.extra, lengths)
        norm = self.ops.instance_norm(x, lengths)
        return (block(x, styles, lengths, norm) for block in self.blocks)


class Generator:
    def __init__(
        self,
        module: Any,
        projections: StyleProjections,
        ops: Ops,
        placement: Placement,
        wave: Placement,
        phase_dtype: torch.dtype | None,
    ) -> None:
        self.ops = ops
        self.source = ops.harmonic_source(module.m_source, wave, phase_dtype)
        self.stft = ops.stft(placement, wave)
        self.stages = [
            UpsampleStage(module, index, projections, ops, placement) for index in range(module.num_upsamples)
        ]
        self.post = ops.output_conv(module.conv_post, placement, wave)
        self.istft = ops.istft(wave)

    def __call__(self, x: Tensor, f0: Tensor, styles: list[AdaINParams], noise: Tensor, lengths: Lengths) -> Tensor:
        """`lengths` count F0 values, two to a frame."""
        spectrum = self.stft(self.source(f0, noise), lengths)
        x = self.ops.leaky_mean([x], 0.1, lengths)
        for stage in self.stages:
            lengths = stage.lengths(lengths)
            slope = 0.01 if stage is self.stages[-1] else 0.1
            x = self.ops.leaky_mean(stage(x, spectrum, styles, lengths), slope, lengths)
        return self.istft(self.post(x, lengths), lengths)
