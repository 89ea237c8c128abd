"""Audio files read by PyAV, which the server does not use to write them (but for aac)."""

from __future__ import annotations

import io

import av
import numpy as np
from numpy.typing import NDArray

RATE = 24_000


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
