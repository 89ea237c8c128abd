"""Kokoro-82M for a batch: rows of different lengths, voices, speeds and pitches in one forward pass.

    plan = model.plan(batch)             tokens  → durations, features per frame
    curves = model.curves(plan)          features → F0 and energy
    audio = model.audio(plan, curves, noise)

Built from a `kokoro.KModel`, whose arithmetic it follows step by step; a row comes out as KModel would give it alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.model.blocks import StyledBlock
from kokoro_server.engine.model.decoder import Decoder
from kokoro_server.engine.model.layers import Conv, StyleTable
from kokoro_server.engine.model.lengths import Kernels, Place, Span
from kokoro_server.engine.model.text_encoder import Albert, DurationEncoder, DurationPredictor, TextEncoder
from kokoro_server.engine.model.torch_ops import Plain

VOICE_DIM = 128  # the first half of a style is for the decoder, the second for the predictor


@dataclass(frozen=True)
class Batch:
    tokens: Tensor  # (rows, longest), a pad (0) at either end of a row and beyond it
    counts: tuple[int, ...]  # tokens per row, its two pads included
    style: Tensor  # (rows, 2 * VOICE_DIM)
    speed: Tensor  # (rows,)


@dataclass(frozen=True)
class Plan:
    """What is known before a sample is made."""

    durations: Tensor  # (rows, longest) frames per token, 0 beyond a row's end
    span: Span  # frames
    style: Tensor
    prosody: Tensor  # (rows, frames, hidden + VOICE_DIM) for the predictor
    text: Tensor  # (rows, frames, hidden) for the decoder


@dataclass(frozen=True)
class Reading:
    """What the text side makes of a batch, per token."""

    durations: Tensor  # (rows, tokens) frames, 0 beyond a row's end
    prosody: Tensor  # (rows, tokens, hidden + VOICE_DIM)
    text: Tensor  # (rows, tokens, hidden)

    def aligned(self, style: Tensor, span: Span) -> Plan:
        """`span` counts frames."""
        prosody, text = (align(x, self.durations, span) for x in (self.prosody, self.text))
        return Plan(self.durations, span, style, prosody, text)


@dataclass(frozen=True)
class Curves:
    """Two values per frame, 0 beyond a row's end."""

    f0: Tensor  # (rows, 2 * frames), Hz
    energy: Tensor

    def transposed(self, voiced: Tensor, semitones: Tensor) -> Curves:
        """F0 moved by each row's semitones where it is voiced; by 0 semitones it is the same to the bit."""
        ratio = torch.exp2(semitones.to(self.f0.dtype) / 12)[:, None]
        return replace(self, f0=torch.where(voiced, self.f0 * ratio, self.f0))


class CurvePredictor:
    """F0 and energy: one LSTM, then three blocks and a projection for each."""

    def __init__(self, module: Any, table: StyleTable, place: Place) -> None:
        self.lstm = place.kernels.lstm(module.shared, place)

        def path(blocks: Any, projection: Any) -> tuple[list[StyledBlock], Conv]:
            last = place.kernels.fine_conv(projection, place, place.dtype)
            return [StyledBlock(block, table, place, place.dtype) for block in blocks], last

        self.f0, self.energy = path(module.F0, module.F0_proj), path(module.N, module.N_proj)
        self.table = table

    def __call__(self, prosody: Tensor, style: Tensor, span: Span) -> Curves:
        shared, styles = self.lstm(prosody, span), self.table(style)
        curves = []
        for blocks, projection in (self.f0, self.energy):
            x, rate = shared, span
            for block in blocks:
                x, rate = block(x, styles, rate)
            curves.append(rate.clear(projection(x, rate))[..., 0])
        return Curves(*curves)


class BatchedKokoro:
    """`dtype` is the decoder's; `predictor_dtype` that of all that decides durations, F0 and energy."""

    def __init__(
        self,
        reference: Any,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        predictor_dtype: torch.dtype = torch.float32,
        phase_dtype: torch.dtype | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        self.exact = Place(device, predictor_dtype, kernels or Plain())
        self.place = self.exact.to(dtype)
        self.wave = self.exact.to(torch.float32) if dtype.itemsize < 4 else self.place
        table = StyleTable(self.exact)
        predictor = reference.predictor
        self.albert = Albert(reference.bert, self.exact)
        narrow = reference.bert_encoder
        self.narrow = self.exact.kernels.linear(narrow.weight, narrow.bias, self.exact)
        self.duration_encoder = DurationEncoder(predictor.text_encoder, table, self.exact)
        self.duration_predictor = DurationPredictor(predictor, self.exact)
        self.text_encoder = TextEncoder(reference.text_encoder, self.exact)
        self.curve_predictor = CurvePredictor(predictor, table, self.exact)
        self.decoder = Decoder(reference.decoder, self.place, self.wave, phase_dtype)
        self.table = table

    def read(self, tokens: Tensor, style: Tensor, speed: Tensor, span: Span) -> Reading:
        """All that is known of the tokens. `span` counts them."""
        told = style[:, VOICE_DIM:]
        x = self.narrow(self.albert(tokens, span))
        prosody = self.duration_encoder(x, told, self.table(told), span)
        durations = self.duration_predictor(prosody, speed, span)
        return Reading(durations, prosody, self.text_encoder(tokens, span))

    def plan(self, batch: Batch) -> Plan:
        style = batch.style.to(self.exact.device, self.exact.dtype)
        span = Span(batch.counts, batch.tokens.shape[1], self.exact)
        reading = self.read(batch.tokens, style, batch.speed.to(style), span)
        counts = tuple(reading.durations.sum(1).tolist())  # the one wait for the device
        return reading.aligned(style, Span(counts, max(counts), self.exact))

    def curves(self, plan: Plan) -> Curves:
        return self.curve_predictor(plan.prosody, plan.style[:, VOICE_DIM:], plan.span)

    def voiced(self, curves: Curves) -> Tensor:
        return self.decoder.generator.source.voiced(curves.f0)

    def audio(self, plan: Plan, curves: Curves, noise: Tensor) -> Tensor:
        """`noise` is (rows, samples), or (rows, samples, harmonics); gives (rows, samples), with junk beyond a row."""
        dtype = self.wave.dtype
        return self.decoder(
            plan.text,
            curves.f0.to(dtype),
            curves.energy.to(dtype),
            plan.style[:, :VOICE_DIM].to(dtype),
            noise.to(self.wave.device, dtype),
            plan.span.at(self.place),
        )


def align(x: Tensor, durations: Tensor, frames: Span) -> Tensor:
    """Each token's features, repeated for as many frames as it lasts. (rows, frames, channels)"""
    ends = durations.cumsum(1)
    frame = torch.arange(frames.size, device=x.device).expand(len(x), -1).contiguous()
    token = torch.searchsorted(ends, frame, right=True).clamp_(max=x.shape[1] - 1)
    return frames.clear(x.gather(1, token[..., None].expand(-1, -1, x.shape[2])))
