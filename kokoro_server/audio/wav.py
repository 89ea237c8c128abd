"""Samples as PCM, bare or behind a WAV header."""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Audio = NDArray[np.float32]
SampleFormat = Literal["pcm_s16le", "pcm_f32le"]

UNKNOWN_SIZE = 0xFFFFFFFF  # the size in the header of a file that is sent while it is made
FORMAT_PCM = 1
FORMAT_FLOAT = 3


def pcm16(audio: Audio, *, in_range: bool = False) -> bytes:
    """Little-endian 16-bit samples. They are clipped to ±1, unless they are known to be `in_range`."""
    scaled = np.multiply(audio, np.float32(32767.0), dtype=np.float32)
    if not in_range:
        np.clip(scaled, -32767.0, 32767.0, out=scaled)
    return np.rint(scaled, out=scaled).astype("<i2").tobytes()


def pcm32(audio: Audio) -> bytes:
    """Little-endian 32-bit float samples, as they are."""
    return audio.astype("<f4", copy=False).tobytes()


def header(sample_rate: int, sample_format: SampleFormat, data_bytes: int | None) -> bytes:
    """The 44-byte WAV header of mono samples. Without `data_bytes`, players read to the end of the stream."""
    width, tag = (2, FORMAT_PCM) if sample_format == "pcm_s16le" else (4, FORMAT_FLOAT)
    data = UNKNOWN_SIZE if data_bytes is None else data_bytes
    riff = UNKNOWN_SIZE if data_bytes is None else 36 + data_bytes
    byte_rate = sample_rate * width
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", riff, b"WAVE"),
        *(b"fmt ", 16, tag, 1, sample_rate, byte_rate, width, 8 * width),
        *(b"data", data),
    )
