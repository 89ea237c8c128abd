"""Faster and slower speech: exactly as long as asked for, at its pitch, without clicks, and times that follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kokoro_server.audio.stretch import WINDOW, stretched
from kokoro_server.engine.protocol import SAMPLE_RATE

Audio = NDArray[np.float32]
FACTORS = (4.0, 2.0, 1 / 1.5, 1 / 3)


def voiced(seconds: float, hertz: float = 110.0, decibels: float = -10.0) -> Audio:
    """A steady voice: a tone and its overtones."""
    t = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    wave = sum(np.sin(2 * np.pi * hertz * k * t + k) / k for k in range(1, 20))
    return (10 ** (decibels / 20) * wave / 2).astype(np.float32)


def silence(seconds: float) -> Audio:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def spoken_like() -> Audio:
    """Sounds of many kinds, with closures between them and one pause, between two silences."""
    random = np.random.default_rng(5)
    parts: list[Audio] = [silence(0.3)]
    for number in range(12):
        parts += [voiced(0.12, random.uniform(90, 250)), silence(0.03)]
        parts.append((0.1 * random.standard_normal(1200)).astype(np.float32))
        if number == 5:
            parts.append(silence(0.4))
    return np.concatenate([*parts, silence(0.5)])


def pitch(audio: Audio) -> float:
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio)), 8 * len(audio)))
    return float(np.argmax(spectrum) * SAMPLE_RATE / (8 * len(audio)))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 20_000), st.floats(0.25, 4))
def test_it_is_as_long_as_asked_for(samples: int, factor: float) -> None:
    audio, warp = stretched(spoken_like()[5_000 : 5_000 + samples], factor)
    assert len(audio) == round(samples * factor)
    assert np.isfinite(audio).all()
    assert (warp.heard_at(np.array([0, samples])) == [0, len(audio)]).all()
    assert (np.diff(warp.heard) >= 0).all()


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("hertz", [90.0, 230.0])
def test_the_pitch_and_the_level_stay(hertz: float, factor: float) -> None:
    before = voiced(2.0, hertz)
    after = stretched(before, factor)[0][WINDOW:-WINDOW]
    assert pitch(after) == pytest.approx(pitch(before), rel=0.01)
    powers = [np.mean(np.square(part)) for part in np.array_split(after, len(after) // 1200)]
    usual = np.mean(np.square(before))
    assert max(abs(10 * np.log10(power / usual)) for power in powers) < 1.5


@pytest.mark.parametrize("factor", FACTORS)
def test_there_is_no_click_in_a_voice(factor: float) -> None:
    before = voiced(2.0, 130.0)
    after = stretched(before, factor)[0][WINDOW : -5 * WINDOW]  # at its end the voice breaks off
    assert np.abs(np.diff(after, 2)).max() < 1.3 * np.abs(np.diff(before, 2)).max()


def test_the_same_audio_is_stretched_in_the_same_way() -> None:
    one, other = (stretched(spoken_like(), 0.4)[0] for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("factor", FACTORS)
def test_a_sound_is_heard_where_the_warp_says(factor: float) -> None:
    bursts = [24_000, 36_000, 52_000]
    audio = spoken_like() * np.float32(0.05)
    for place in bursts:
        audio[place : place + 480] = voiced(0.02, 300.0, 0.0)
    heard, warp = stretched(audio, factor)
    for place in bursts:
        about = int(warp.heard_at(np.array([place + 240]))[0])
        first = max(0, about - 2400)
        loudest = first + int(np.argmax(np.abs(heard[first : about + 2400])))
        assert abs(loudest - about) < 720 * max(1, factor)  # 30 ms


def test_faster_speech_is_faster_by_just_as_much_from_its_first_sound_to_its_last() -> None:
    audio = spoken_like()
    loud = np.flatnonzero(np.abs(audio) > 0.01)
    for speed in (2, 3, 4):
        heard = np.flatnonzero(np.abs(stretched(audio, 1 / speed)[0]) > 0.01)
        assert heard[-1] - heard[0] == pytest.approx((loud[-1] - loud[0]) / speed, rel=0.02)


def test_faster_speech_has_shorter_pauses_and_keeps_the_changes_between_its_sounds() -> None:
    steady, pause = voiced(0.3), silence(0.4)
    changing = np.concatenate([voiced(0.03, hertz) for hertz in (90, 400, 150, 600, 100, 500, 200, 700, 120, 300)])
    audio = np.concatenate([steady, changing, steady, pause, steady, changing, steady])
    warp = stretched(audio, 0.4)[1]
    bounds = np.cumsum([0, *map(len, (steady, changing, steady, pause))])
    lengths = np.diff(warp.heard_at(bounds)) / np.diff(bounds)
    assert lengths[1] > 1.2 * max(lengths[0], lengths[2])
    assert lengths[3] < 0.8 * 0.4
    assert lengths[1] <= 1


def test_slower_speech_is_slower_everywhere() -> None:
    warp = stretched(spoken_like(), 2.5)[1]
    assert warp.heard_at(np.array([4_000, 30_000])) == pytest.approx([10_000, 75_000])


def test_silence_stays_silence() -> None:
    for factor in FACTORS:
        assert not stretched(silence(1.0), factor)[0].any()
