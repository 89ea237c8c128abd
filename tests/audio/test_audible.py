"""The first audible sample, and the silence before it."""

from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.audio.audible import BLOCK, first_audible, silent_lead
from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Rendering, SoundStart
from kokoro_server.audio.sound import Sound
from kokoro_server.audio.wav import pcm16
from kokoro_server.engine.protocol import Audio, Pcm16


def speech(lead: int, *, noise: float = 0.0003) -> Audio:
    """A quiet beginning, then half a second of a tone that starts at its peak."""
    tone = 0.3 * np.cos(2 * np.pi * 440 * np.arange(12_000) / 24_000)
    quiet = noise * np.random.default_rng(0).uniform(-1, 1, lead)
    return np.concatenate([quiet, tone]).astype(np.float32)


@pytest.mark.parametrize("lead", [0, 1, 1200, BLOCK - 1, BLOCK, 3 * BLOCK + 7])
def test_it_is_the_first_sample_over_45_db_below_the_peak(lead: int) -> None:
    audio = speech(lead)
    assert first_audible(audio) == lead
    assert first_audible(-audio) == lead
    assert first_audible(audio, peak=0.3) == lead
    assert first_audible(np.frombuffer(pcm16(audio), "<i2")) == lead


def test_it_follows_the_peak() -> None:
    audio = speech(1200, noise=0.0016)  # -45.5 dB of the peak
    assert first_audible(audio) == 1200
    assert first_audible(audio, peak=0.1) < 10


def test_silence_and_what_is_no_number_is_never_audible() -> None:
    for audio in (np.zeros(9000), np.zeros(0), np.full(9000, np.nan), np.zeros(100, "<i2")):
        assert first_audible(audio) is None


def test_a_lead_is_counted_as_far_as_it_is_wanted() -> None:
    audio = speech(1200)
    assert silent_lead(audio, 1024) == 1024
    assert silent_lead(audio, 5000) == 1200
    assert silent_lead(audio[:700], 1024) == 700
    assert silent_lead(speech(0), 1024) == 0


@pytest.mark.parametrize(
    ("output", "streamed", "late"),
    [
        (Output("wav"), True, 0),
        (Output("opus"), True, 0),
        (Output("mp3"), False, 0),
        (Output("mp3"), True, 1105 / 24_000 - 0.01),
        (Output("aac"), False, 1024 / 24_000 - 0.01),
        (Output("aac", 8_000), True, 1024 / 8_000 - 0.01),
    ],
)
def test_a_file_begins_later_by_what_the_silence_cannot_make_up_for(
    output: Output, streamed: bool, late: float
) -> None:
    start = Rendering(output).start(Sound(speech(240)), streamed=streamed)
    assert start.late == pytest.approx(late)
    assert start.audible == pytest.approx(0.01 + late)
    assert Rendering(output).start(Sound(speech(12_000)), streamed=streamed) == SoundStart(0.5, 0.0)


def test_a_known_peak_is_not_looked_for_again() -> None:
    audio = speech(1200, noise=0.0016)
    start = Rendering().start(Sound(audio, Pcm16(np.frombuffer(pcm16(audio), np.int16), 0.3)))
    assert start.audible == pytest.approx(0.05)
