"""Another sample rate: the same sound, in time, exactly as long, whole or piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kokoro_server.audio.resample import MAX_RATE, MIN_RATE, Resampler
from kokoro_server.engine.protocol import SAMPLE_RATE

RATES = [8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000]

Audio = NDArray[np.float32]


def tone(frequency: float, seconds: float = 1.0) -> Audio:
    t = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.5 * np.sin(2 * np.pi * frequency * t)).astype(np.float32)


def resample(audio: Audio, rate: int, pieces: int = 1) -> Audio:
    resampler = Resampler(rate)
    return np.concatenate([*map(resampler.write, np.array_split(audio, pieces)), resampler.finish()])


@pytest.mark.parametrize("rate", RATES)
def test_tone_keeps_its_pitch_and_level(rate: int) -> None:
    t = np.arange(rate) / rate
    middle = slice(rate // 10, -rate // 10)
    error = resample(tone(440), rate)[middle] - 0.5 * np.sin(2 * np.pi * 440 * t)[middle]
    assert np.abs(error).max() < 1e-4


@pytest.mark.parametrize(("rate", "frequency"), [(8_000, 5_000), (8_000, 11_000), (16_000, 9_000), (22_050, 11_900)])
def test_what_the_rate_cannot_hold_is_left_out(rate: int, frequency: float) -> None:
    folded = resample(tone(frequency), rate)[rate // 10 : -rate // 10]
    assert 20 * np.log10(np.sqrt(np.mean(folded**2)) / 0.354) < -60


@pytest.mark.parametrize("rate", [32_000, 44_100, 48_000])
def test_nothing_is_added_above_the_old_band(rate: int) -> None:
    spectrum = np.abs(np.fft.rfft(resample(tone(9_000), rate) * np.hanning(rate)))
    assert 20 * np.log10(spectrum[12_500:].max() / spectrum.max()) < -60


@pytest.mark.parametrize("rate", RATES)
def test_a_sound_begins_when_it_did(rate: int) -> None:
    click = np.zeros(SAMPLE_RATE, np.float32)
    click[SAMPLE_RATE // 3] = 1.0
    assert np.argmax(np.abs(resample(click, rate))) == pytest.approx(rate / 3, abs=1)


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(0, 20_000),
    rate=st.sampled_from(RATES) | st.integers(MIN_RATE, MAX_RATE),
    pieces=st.integers(1, 30),
)
def test_whole_and_pieces_are_equal_and_exactly_as_long_as_they_should_be(length: int, rate: int, pieces: int) -> None:
    audio = np.random.default_rng(length).uniform(-0.5, 0.5, length).astype(np.float32)
    whole = resample(audio, rate)
    assert abs(len(whole) - length * rate / SAMPLE_RATE) <= 0.5
    assert whole.dtype == np.float32
    np.testing.assert_allclose(resample(audio, rate, pieces), whole, atol=1e-6)


def test_own_rate_is_handed_through() -> None:
    audio = tone(440)
    resampler = Resampler(SAMPLE_RATE)
    assert resampler.write(audio) is audio
    assert len(resampler.finish()) == 0
