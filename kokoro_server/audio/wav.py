"""Samples as PCM, bare or behind a WAV header."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import Audio

SampleFormat = Literal["pcm_s16le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"]

UNKNOWN_SIZE = 0xFFFFFFFF  # in the header of a streamed file
_FORMATS: dict[SampleFormat, tuple[int, int]] = {  # bytes of a sample, WAVE format tag
    "pcm_s16le": (2, 1),
    "pcm_f32le": (4, 3),
    "pcm_alaw": (1, 6),
    "pcm_mulaw": (1, 7),
}


def pcm16(audio: Audio, *, in_range: bool = False) -> bytes:
    """Little-endian 16-bit samples. Clips to ±1 unless all samples are `in_range` already."""
    scaled = np.multiply(audio, np.float32(32767.0), dtype=np.float32)
    if not in_range:
        np.clip(scaled, -32767.0, 32767.0, out=scaled)
    return np.rint(scaled, out=scaled).astype("<i2").tobytes()


def pcm32(audio: Audio) -> bytes:
    """Little-endian 32-bit float samples, unclipped."""
    return audio.astype("<f4", copy=False).tobytes()


def mulaw(audio: Audio) -> bytes:
    """The μ-law of telephony (G.711), eight bits a sample."""
    return bytes(_mulaw_table()[np.frombuffer(pcm16(audio), "<u2") >> 2])


def alaw(audio: Audio) -> bytes:
    """The A-law of telephony (G.711), eight bits a sample."""
    return bytes(_alaw_table()[np.frombuffer(pcm16(audio), "<u2") >> 3])


@cache
def _mulaw_table() -> NDArray[np.uint8]:
    """The byte for each 14-bit sample, read as an unsigned number."""
    samples = _two_complement(14)
    magnitude = np.minimum(np.abs(samples) + 33, 0x1FFF)
    segment = np.floor(np.log2(magnitude)).astype(np.int64) - 5
    mantissa = (magnitude >> (segment + 1)) & 0x0F
    code = np.where(samples < 0, 0x80, 0) | segment << 4 | mantissa
    return np.asarray(~code & 0xFF, np.uint8)


@cache
def _alaw_table() -> NDArray[np.uint8]:
    """The byte for each 13-bit sample, read as an unsigned number."""
    samples = _two_complement(13)
    magnitude = np.where(samples < 0, ~samples, samples)
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int64) - 4, 0)
    mantissa = (magnitude >> np.maximum(segment, 1)) & 0x0F
    code = np.where(samples < 0, 0, 0x80) | segment << 4 | mantissa
    return np.asarray(code ^ 0x55, np.uint8)


def _two_complement(bits: int) -> NDArray[np.int64]:
    numbers = np.arange(1 << bits)
    return np.where(numbers < 1 << (bits - 1), numbers, numbers - (1 << bits))


PACK: dict[SampleFormat, Callable[[Audio], bytes]] = {
    "pcm_s16le": pcm16,
    "pcm_f32le": pcm32,
    "pcm_mulaw": mulaw,
    "pcm_alaw": alaw,
}


def header(sample_rate: int, sample_format: SampleFormat, data_bytes: int | None) -> bytes:
    """The 44-byte WAV header of mono samples. Without `data_bytes`, players read to the end of the stream.

    So they do with more bytes than a header can say.
    """
    width, tag = _FORMATS[sample_format]
    known = data_bytes is not None and 36 + data_bytes < UNKNOWN_SIZE
    data, riff = (data_bytes, 36 + data_bytes) if data_bytes is not None and known else (UNKNOWN_SIZE, UNKNOWN_SIZE)
    byte_rate = sample_rate * width
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", riff, b"WAVE"),
        *(b"fmt ", 16, tag, 1, sample_rate, byte_rate, width, 8 * width),
        *(b"data", data),
    )


def floats(pcm: bytes) -> Audio:
    """The inverse of `pcm16`."""
    samples: Audio = np.frombuffer(pcm, "<i2").astype(np.float32)
    samples /= 32767
    return samples
