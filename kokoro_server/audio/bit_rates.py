"""Bit rates of mp3 and opus. libsndfile knows only a level of compression, from which it computes the bit rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

# Kilobits a second of each MPEG version, which depends on the sample rate. The first and last are libsndfile's levels 1
# and 0.
_MPEG1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MPEG2_5 = (8, 16, 24, 32, 40, 48, 56, 64)
_OPUS = range(6_000, 256_001)
_HIGHEST_LEVEL = 0.9999  # libsndfile refuses 1 for mp3


class Compression(TypedDict, total=False):
    """Arguments of soundfile.SoundFile."""

    compression_level: float
    bitrate_mode: str


def bit_rates(format: Literal["mp3", "opus"], sample_rate: int) -> Sequence[int]:
    """The bit rates that a format allows."""
    if format == "opus":
        return _OPUS
    kilobits = _MPEG1 if sample_rate >= 32_000 else _MPEG2 if sample_rate >= 16_000 else _MPEG2_5
    return tuple(1000 * rate for rate in kilobits)


def compression(format: str, sample_rate: int, bit_rate: int) -> Compression:
    """Constant bit rate in mp3, average bit rate in opus."""
    if format == "opus":
        return {"compression_level": _level(_OPUS, bit_rate)}
    level = _level(bit_rates("mp3", sample_rate), bit_rate)
    return {"compression_level": min(level, _HIGHEST_LEVEL), "bitrate_mode": "CONSTANT"}


def _level(rates: Sequence[int], bit_rate: int) -> float:
    lowest, highest = rates[0], rates[-1]
    return (highest - bit_rate) / (highest - lowest)
