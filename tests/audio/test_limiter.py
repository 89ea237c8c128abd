"""Volume: as loud as asked for, never over the ceiling, smooth, and the same whole or piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kokoro_server.audio.limiter import CEILING, MAX_DB, MIN_DB, Limiter

RATE = 24_000

Audio = NDArray[np.float32]


def tone(amplitude: float, seconds: float = 1.0, frequency: float = 300) -> Audio:
    t = np.arange(round(seconds * RATE)) / RATE
    return (amplitude * np.sin(2 * np.pi * frequency * t)).astype(np.float32)


def bursts(seed: int, length: int) -> Audio:
    """Noise whose level jumps about, some of it far over full scale."""
    random = np.random.default_rng(seed)
    levels = 10 ** random.uniform(-3, 0.5, length // 400 + 1)
    return (np.repeat(levels, 400)[:length] * random.uniform(-1, 1, length)).astype(np.float32)


def level(audio: Audio, volume: float, pieces: int = 1, rate: int = RATE) -> Audio:
    limiter = Limiter(volume, rate)
    return np.concatenate([*map(limiter.write, np.array_split(audio, pieces)), limiter.finish()])


@pytest.mark.parametrize("volume", [-60.0, -6.0, 3.0, 12.0])
def test_volume_is_what_was_asked_for(volume: float) -> None:
    audio = tone(0.2)
    np.testing.assert_allclose(level(audio, volume), audio * 10 ** (volume / 20), rtol=1e-6)


def test_zero_leaves_the_samples_alone() -> None:
    audio = np.concatenate([tone(0.4), tone(CEILING), bursts(1, 5000) / 4])
    assert np.array_equal(level(audio, 0.0), audio)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(0, 20_000),
    volume=st.floats(MIN_DB, MAX_DB),
    rate=st.sampled_from([8_000, 24_000, 48_000]),
    pieces=st.integers(1, 40),
)
def test_nothing_passes_the_ceiling_and_pieces_equal_the_whole(
    seed: int, length: int, volume: float, rate: int, pieces: int
) -> None:
    audio = bursts(seed, length)
    whole = level(audio, volume, rate=rate)
    assert len(whole) == length
    assert np.abs(whole).max(initial=0.0) <= np.float32(CEILING)
    assert np.array_equal(level(audio, volume, pieces, rate), whole)


@pytest.mark.parametrize("size", [1, 7, 119, 120, 121])
def test_pieces_shorter_than_the_look_ahead(size: int) -> None:
    audio = bursts(3, 3_000)
    limiter = Limiter(12.0)
    parts = [limiter.write(audio[start : start + size]) for start in range(0, len(audio), size)]
    assert np.array_equal(np.concatenate([*parts, limiter.finish()]), level(audio, 12.0))


def test_a_lone_peak_is_turned_down_before_it_comes() -> None:
    """A spike eight times full scale in a quiet tone: the gain moves smoothly around it and is back soon after."""
    audio = tone(0.1)
    spike = RATE // 2
    audio[spike] = 8.0
    quiet = np.abs(audio) > 0.01
    gain = np.interp(np.arange(RATE), np.flatnonzero(quiet), (level(audio, 0.0)[quiet] / audio[quiet]))
    assert gain[spike] == pytest.approx(CEILING / 8, rel=1e-3)
    assert np.abs(np.diff(gain)).max() < 0.03
    assert np.allclose(gain[: spike - 200], 1.0)
    assert np.allclose(gain[spike + round(0.4 * RATE) :], 1.0)
    assert gain[spike + round(0.05 * RATE)] < 0.5


def test_loud_tone_stays_a_tone() -> None:
    """10 dB too loud: limited, not squared off. Clipping would put a third of it into harmonics."""
    limited = level(tone(0.9, 3.0), 10.0)[RATE:-RATE]
    spectrum = np.abs(np.fft.rfft(limited * np.hanning(len(limited))))
    harmonics = np.sqrt(sum(spectrum[300 * n - 3 : 300 * n + 4].max() ** 2 for n in range(2, 10)))
    assert harmonics / spectrum[297:304].max() < 0.02
    assert np.abs(limited).max() > 0.95
