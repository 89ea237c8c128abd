"""Audio leaves a GPU with its 16-bit form and its peak, as the rest of the service would make them."""

from __future__ import annotations

import numpy as np
import torch

from kokoro_server.audio.wav import pcm16
from kokoro_server.engine.cuda import output_buffer
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME

COUNTS = [3, 1, 4]
SIZE = 5  # frames


def filled(audio: torch.Tensor) -> np.ndarray:
    block = torch.full((len(audio), output_buffer.line_width(SIZE)), float("nan"))
    output_buffer.pack(block, audio, torch.tensor(COUNTS))
    return block.numpy()


def noise(level: float) -> torch.Tensor:
    return level * torch.randn(len(COUNTS), SIZE * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(1))


def test_samples_come_out_as_they_were_and_in_16_bits() -> None:
    audio = noise(0.4)  # a few lie beyond full scale
    assert audio.abs().max() > 1
    for line, count, (samples, ready) in zip(audio, COUNTS, output_buffer.unpack(filled(audio), COUNTS), strict=True):
        expected = line[: count * SAMPLES_PER_FRAME].numpy()
        assert np.array_equal(samples, expected)
        assert ready.samples.tobytes() == pcm16(expected)
        assert ready.peak == np.abs(expected).max()


def test_junk_beyond_a_row_does_not_count() -> None:
    audio = noise(0.1)
    for line, count in zip(audio, COUNTS, strict=True):
        line[count * SAMPLES_PER_FRAME :] = float("nan")
    assert all(ready.peak < 1 for _, ready in output_buffer.unpack(filled(audio), COUNTS))


def test_a_peak_tells_of_samples_that_are_not_finite() -> None:
    audio = noise(0.1)
    audio[0, 7], audio[2, 9] = float("nan"), -float("inf")
    peaks = [ready.peak for _, ready in output_buffer.unpack(filled(audio), COUNTS)]
    assert np.isnan(peaks[0])
    assert np.isfinite(peaks[1])
    assert peaks[2] == np.inf


def test_halves_are_told_in_single_precision() -> None:
    audio = noise(0.1).half()
    for line, (samples, _) in zip(audio, output_buffer.unpack(filled(audio), COUNTS), strict=True):
        assert np.array_equal(samples, line.float().numpy()[: len(samples)])
