"""Resamples to the rate that the client asked for, by soxr: band-limited, without delay, and of exact length."""

from __future__ import annotations

import numpy as np
import soxr

from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

MIN_RATE = 8_000  # Hz
MAX_RATE = 48_000


class Resampler:
    """From the model's rate to `sample_rate`. Takes samples in order and returns those that are ready.

    The output does not depend on how the input is divided: `round(n * sample_rate / SAMPLE_RATE)` samples for n, with
    no delay. At the model's own rate the arrays pass through.
    """

    def __init__(self, sample_rate: int) -> None:
        same = sample_rate == SAMPLE_RATE
        self._stream = None if same else soxr.ResampleStream(SAMPLE_RATE, sample_rate, 1, dtype="float32")

    def write(self, audio: Audio) -> Audio:
        return audio if self._stream is None else self._stream.resample_chunk(audio)

    def finish(self) -> Audio:
        """The last samples; nothing may be written after."""
        empty = np.zeros(0, np.float32)
        return empty if self._stream is None else self._stream.resample_chunk(empty, last=True)
