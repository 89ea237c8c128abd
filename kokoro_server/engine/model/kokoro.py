"""Kokoro-82M for a batch: rows of different lengths, voices, speeds and pitches in one forward pass.

    features = model.align(batch)            tokens → durations, features per frame
    prosody = model.prosody(features)        features → F0 and energy
    audio = model.audio(features, prosody, noise)

Built from a `kokoro.KModel`, whose arithmetic it follows step by step. A row's audio is what KModel would compute for
that row alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.model.blocks import AdaINResBlock
from kokoro_server.engine.model.decoder import Decoder
from kokoro_server.engine.model.harmonic_source import widest_float
from kokoro_server.engine.model.layers import Conv, StyleProjections
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.model.ops import Ops
from kokoro_server.engine.model.text_encoder import Albert, DurationEncoder, DurationPredictor, TextEncoder

HALF_STYLE = 128  # the first half of a style is for the decoder, the second for the predictor


@dataclass(frozen=True)
class TokenBatch:
    tokens: Tensor  # (rows, longest), a pad (0) at either end of a row, and padding
    counts: tuple[int, ...]  # tokens per row, its two pads included
    style: Tensor  # (rows, 2 * HALF_STYLE)
    speed: Tensor  # (rows,)


@dataclass(frozen=True)
class AlignedFeatures:
    """The inputs of the decoder and of the prosody predictor, per frame."""

    durations: Tensor  # (rows, longest) frames per token, 0 in the padding
    lengths: Lengths  # frames
    style: Tensor
    for_prosody: Tensor  # (rows, frames, hidden + HALF_STYLE)
    for_decoder: Tensor  # (rows, frames, hidden)


@dataclass(frozen=True)
class TextFeatures:
    """The results of the text side for a batch, per token."""

    durations: Tensor  # (rows, tokens) frames, 0 in the padding
    for_prosody: Tensor  # (rows, tokens, hidden + HALF_STYLE)
    for_decoder: Tensor  # (rows, tokens, hidden)

    def aligned(self, style: Tensor, lengths: Lengths) -> AlignedFeatures:
        """`lengths` count frames."""
        for_prosody, for_decoder = (repeat(x, self.durations, lengths) for x in (self.for_prosody, self.for_decoder))
        return AlignedFeatures(self.durations, lengths, style, for_prosody, for_decoder)


@dataclass(frozen=True)
class Prosody:
    """F0 and energy: two values of each per frame, 0 in the padding."""

    f0: Tensor  # (rows, 2 * frames), Hz
    energy: Tensor

    def transposed(self, voiced: Tensor, semitones: Tensor) -> Prosody:
        """F0 moved by each row's semitones where it is voiced; 0 semitones change no bit."""
        ratio = torch.exp2(semitones.to(self.f0.dtype) / 12)[:, None]
        return replace(self, f0=torch.where(voiced, self.f0 * ratio, self.f0))


class ProsodyPredictor:
    """F0 and energy: one LSTM, then three blocks and a projection for each."""

    def __init__(self, module: Any, projections: StyleProjections, ops: Ops, placement: Placement) -> None:
        self.lstm = ops.lstm(module.shared, placement)

        def path(blocks: Any, projection: Any) -> tuple[list[AdaINResBlock], Conv]:
            last = ops.conv_fp32_activations(projection, placement, placement.dtype)
            return [AdaINResBlock(block, projections, ops, placement, placement.dtype) for block in blocks], last

        self.f0, self.energy = path(module.F0, module.F0_proj), path(module.N, module.N_proj)
        self.projections = projections

    def __call__(self, x: Tensor, style: Tensor, lengths: Lengths) -> Prosody:
        shared, styles = self.lstm(x, lengths), self.projections(style)
        curves = []
        for blocks, projection in (self.f0, self.energy):
            y, rate = shared, lengths
            for block in blocks:
                y, rate = block(y, styles, rate)
            curves.append(rate.mask_(projection(y, rate))[..., 0])
        return Prosody(*curves)


class BatchedKokoro:
    """`dtype` is the decoder's precision; `predictor_dtype` decides durations, F0 and energy."""

    def __init__(
        self,
        reference: Any,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        predictor_dtype: torch.dtype = torch.float32,
        phase_dtype: torch.dtype | None = None,
        ops: Ops | None = None,
    ) -> None:
        ops = ops or Ops()
        self.predictor_placement = exact = Placement(device, predictor_dtype)
        self.placement = exact.to(dtype)
        self.wave = exact.to(torch.float32) if dtype.itemsize < 4 else self.placement
        self.projections = StyleProjections(exact)
        predictor = reference.predictor
        self.albert = Albert(reference.bert, ops, exact)
        self.bert_encoder = ops.linear(reference.bert_encoder.weight, reference.bert_encoder.bias, exact)
        self.duration_encoder = DurationEncoder(predictor.text_encoder, self.projections, ops, exact)
        self.duration_predictor = DurationPredictor(predictor, ops, exact)
        self.text_encoder = TextEncoder(reference.text_encoder, ops, exact)
        self.prosody_predictor = ProsodyPredictor(predictor, self.projections, ops, exact)
        self.decoder = Decoder(reference.decoder, ops, self.placement, self.wave, phase_dtype)

    def read(self, tokens: Tensor, style: Tensor, speed: Tensor, lengths: Lengths) -> TextFeatures:
        """`encode`, where each row is as much shorter than at speed 1 as its speed says."""
        features = self.encode(tokens, style, torch.ones_like(speed), lengths)
        return replace(features, durations=at_speed(features.durations, speed, lengths))

    def encode(self, tokens: Tensor, style: Tensor, speed: Tensor, lengths: Lengths) -> TextFeatures:
        """The text side. `lengths` count tokens. Other speeds than 1 are those of `kokoro.KModel`: see `at_speed`."""
        predictor_style = style[:, HALF_STYLE:]
        x = self.bert_encoder(self.albert(tokens, lengths))
        x = self.duration_encoder(x, predictor_style, self.projections(predictor_style), lengths)
        durations = self.duration_predictor(x, speed, lengths)
        return TextFeatures(durations, x, self.text_encoder(tokens, lengths))

    def align(self, batch: TokenBatch) -> AlignedFeatures:
        style = batch.style.to(self.predictor_placement.device, self.predictor_placement.dtype)
        lengths = Lengths(batch.counts, batch.tokens.shape[1], self.predictor_placement)
        features = self.read(batch.tokens, style, batch.speed.to(style), lengths)
        counts = tuple(features.durations.sum(1).tolist())  # the one wait for the device
        return features.aligned(style, Lengths(counts, max(counts), self.predictor_placement))

    def prosody(self, features: AlignedFeatures) -> Prosody:
        return self.prosody_predictor(features.for_prosody, features.style[:, HALF_STYLE:], features.lengths)

    def voiced(self, prosody: Prosody) -> Tensor:
        return self.decoder.generator.source.voiced(prosody.f0)

    def audio(self, features: AlignedFeatures, prosody: Prosody, noise: Tensor) -> Tensor:
        """`noise` is (rows, samples), or (rows, samples, harmonics); returns (rows, samples), junk in the padding."""
        dtype = self.wave.dtype
        return self.decoder(
            features.for_decoder,
            prosody.f0.to(dtype),
            prosody.energy.to(dtype),
            features.style[:, :HALF_STYLE].to(dtype),
            noise.to(self.wave.device, dtype),
            features.lengths.at(self.placement),
        )


def at_speed(durations: Tensor, speed: Tensor, lengths: Lengths) -> Tensor:
    """Durations of speed 1 as they are at another: where each token ends is rounded, so that no rounding adds up.

    `kokoro.KModel` rounds each token by itself, at least to one frame: 1.2 becomes 1.12, and 1.4 becomes 1.48.
    """
    number = torch.arange(1, durations.shape[1] + 1, device=durations.device)  # of frames, at least, to a token's end
    exact = durations.cumsum(1).to(widest_float(durations.device)) / speed.to(number.device, torch.float32)[:, None]
    ends = (exact.round().long() - number).clamp_(min=0).cummax(1).values + number
    return torch.diff(ends, dim=1, prepend=torch.zeros_like(ends[:, :1])) * lengths.mask


def repeat(x: Tensor, durations: Tensor, frames: Lengths) -> Tensor:
    """Each token's features, repeated for as many frames as it lasts. (rows, frames, channels)"""
    ends = durations.cumsum(1)
    frame = torch.arange(frames.size, device=x.device).expand(len(x), -1).contiguous()
    token = torch.searchsorted(ends, frame, right=True).clamp_(max=x.shape[1] - 1)
    return frames.mask_(x.gather(1, token[..., None].expand(-1, -1, x.shape[2])))
