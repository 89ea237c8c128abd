"""Audio files read by PyAV, which the server does not use to write them (but for aac)."""

from __future__ import annotations

import io

import av
import numpy as np
from numpy.typing import NDArray

RATE = 24_000
# How many samples more than the clip the decoded file may have, in lossy formats. Others are exact.
EXTRA_SAMPLES = {"mp3": range(2501), "opus": range(401), "aac": range(2201)}
EXACT = range(1)


def decode(data: bytes, format: str) -> NDArray[np.float32]:
    if format == "pcm":
        return np.frombuffer(data, "<i2").astype(np.float32) / 32767
    with av.open(io.BytesIO(data)) as container:
        assert container.streams.audio[0].codec_context.channels == 1
        resampler = av.AudioResampler("flt", "mono", RATE)
        frames = [f for frame in container.decode(audio=0) for f in resampler.resample(frame)] + resampler.resample(
            None
        )
    return np.concatenate([frame.to_ndarray().ravel() for frame in frames])


def assert_same_samples(one: bytes, other: bytes, sample_format: str = "pcm_s16le") -> None:
    """Bare samples that differ by no more than rounding, which goes by the batch that they were made in."""
    dtype = {"pcm_s16le": "<i2", "pcm_f32le": "<f4"}.get(sample_format, "u1")
    a, b = np.frombuffer(one, dtype), np.frombuffer(other, dtype)
    assert a.shape == b.shape
    if dtype == "u1":  # the codes of telephony are no numbers to be subtracted
        assert np.mean(a == b) > 0.95
    else:
        np.testing.assert_allclose(a, b, atol=3e-3 if dtype == "<f4" else 100)
