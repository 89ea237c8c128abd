"""Samples as PCM, bare or behind a WAV header."""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
SampleFormat = Literal["pcm_s16le", "pcm_f32le"]

UNKNOWN = 0xFFFFFFFF  # the length a header gives when the file is still being made
FORMAT_PCM = 1
FORMAT_FLOAT = 3


def pcm16(audio: Samples, *, within: bool = False) -> bytes:
    """Little-endian 16-bit samples; what lies outside ±1 is clipped. `within`: nothing does, it is known."""
    scaled = np.multiply(audio, np.float32(32767.0), dtype=np.float32)
    if not within:
        np.clip(scaled, -32767.0, 32767.0, out=scaled)
    return np.rint(scaled, out=scaled).astype("<i2").tobytes()


def pcm32(audio: Samples) -> bytes:
    """Little-endian 32-bit float samples, as they are."""
    return audio.astype("<f4", copy=False).tobytes()


def header(sample_rate: int, sample_format: SampleFormat, data_bytes: int | None) -> bytes:
    """The 44 bytes before mono samples. With no length, players read to the end of the stream."""
    width, tag = (2, FORMAT_PCM) if sample_format == "pcm_s16le" else (4, FORMAT_FLOAT)
    data = UNKNOWN if data_bytes is None else data_bytes
    riff = UNKNOWN if data_bytes is None else 36 + data_bytes
    rate = sample_rate * width  # bytes a second
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", riff, b"WAVE"),
        *(b"fmt ", 16, tag, 1, sample_rate, rate, width, 8 * width),
        *(b"data", data),
    )
