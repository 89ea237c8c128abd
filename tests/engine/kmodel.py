"""The reference: `kokoro.KModel` itself, one row at a time, with its noise given and its inner curves written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kokoro_server.engine.model.kokoro import TokenBatch, at_speed
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Row

HARMONICS = 9
CPU = Placement(torch.device("cpu"), torch.float32)


@dataclass(frozen=True)
class Spoken:
    audio: Tensor  # (samples,)
    durations: Tensor  # (tokens + 2,)
    f0: Tensor  # (2 * frames,)
    energy: Tensor


def noise(seed: int, frames: int) -> Tensor:
    """The noise that KModel draws for a row: one channel per harmonic."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(frames * SAMPLES_PER_FRAME, HARMONICS, generator=generator, dtype=torch.float32)


def speak(model: Any, row: Row, *, sound: bool = True) -> Spoken:
    """KModel's own forward with `noise(row.seed, …)`, its durations at other speeds than 1 made as ours are.

    Without `sound` it stops before the decoder.
    """
    seen: dict[str, Tensor] = {}
    decode = model.decoder.forward

    def decoder(asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor) -> Tensor:
        seen.update(f0=f0[0], energy=energy[0])
        return decode(asr, f0, energy, style) if sound else torch.zeros(1)

    def randn_like(like: Tensor) -> Tensor:
        drawn = noise(row.seed, like.shape[1] // SAMPLES_PER_FRAME)
        return drawn[None, :, : like.shape[2]].to(like.dtype)

    def rounded(frames: Tensor) -> Tensor:
        durations = round_each(frames).clamp(min=1).long()
        return at_speed(durations, torch.tensor([row.speed]), whole).to(frames.dtype)

    round_each, whole = torch.round, Lengths((len(row.tokens) + 2,), len(row.tokens) + 2, CPU)
    style = torch.tensor(row.style, dtype=torch.get_default_dtype())[None]
    tokens = torch.tensor([[0, *row.tokens, 0]])
    with (
        patch.object(model.decoder, "forward", decoder),
        patch.object(torch, "randn_like", randn_like),
        patch.object(torch, "round", rounded),
    ):
        audio, durations = model.forward_with_tokens(tokens, style, 1.0)
    return Spoken(audio, durations, seen["f0"], seen["energy"])


@contextmanager
def double_precision() -> Iterator[None]:
    """KModel makes some tensors in the default precision; in here that is double."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def batch(rows: list[Row]) -> TokenBatch:
    counts = tuple(len(row.tokens) + 2 for row in rows)
    tokens = torch.zeros(len(rows), max(counts), dtype=torch.long)
    for line, row in zip(tokens, rows, strict=True):
        line[1 : len(row.tokens) + 1] = torch.tensor(row.tokens)
    style = torch.from_numpy(np.stack([row.style for row in rows]))
    return TokenBatch(tokens, counts, style, torch.tensor([row.speed for row in rows], dtype=torch.float64))


def padded(rows: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def snr(expected: Tensor | NDArray[np.float32], actual: Tensor | NDArray[np.float32]) -> float:
    """Signal to error, in dB."""
    wanted, got = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    assert wanted.shape == got.shape
    error = np.square(wanted - got).sum()
    return float("inf") if error == 0 else float(10 * np.log10(np.square(wanted).sum() / error))


def log_mel(audio: Tensor | NDArray[np.float32]) -> NDArray[np.float64]:
    """Log magnitudes of 80 mel bands, every 12.5 ms. (bands, steps)"""
    spectrum = torch.stft(
        torch.as_tensor(np.asarray(audio, np.float64)), 1200, 300, window=torch.hann_window(1200).double(),
        return_complex=True,
    ).abs()  # fmt: skip
    edges = 700 * (np.exp(np.linspace(0, np.log1p(12_000 / 700), 82)) - 1)
    bins = np.linspace(0, 12_000, spectrum.shape[0])
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    bands = np.clip(np.minimum(rising, falling), 0, None)
    bands[0, 0] = 1.0  # the lowest triangle is narrower than a bin
    return np.asarray(20 * np.log10(bands @ spectrum.numpy() + 1e-3))


def log_mel_distance(one: Tensor | NDArray[np.float32], other: Tensor | NDArray[np.float32]) -> float:
    """Root mean square difference in dB."""
    return float(np.sqrt(np.mean((log_mel(one) - log_mel(other)) ** 2)))
