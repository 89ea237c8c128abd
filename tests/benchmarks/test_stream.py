"""What the stream benchmark makes of arrival times."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.stream_bench import BYTES_PER_SECOND, SAMPLE_RATE, playback, steps

SECOND = bytes(BYTES_PER_SECOND)


def test_audio_that_comes_before_it_is_needed_never_stalls() -> None:
    found = playback([(0.5, SECOND), (1.2, 2 * SECOND), (3.5, SECOND)])
    assert (found.start, found.stalls, found.audio, found.total) == (0.5, (), 4.0, 3.5)


def test_late_audio_is_a_stall_and_what_follows_is_heard_later() -> None:
    found = playback([(0.5, SECOND), (2.0, SECOND), (3.1, SECOND)])
    assert found.stalls == (pytest.approx(0.5), pytest.approx(0.1))


def test_the_first_sound_is_heard_after_the_silence_before_it() -> None:
    samples = np.zeros(SAMPLE_RATE, "<i2")
    samples[6_000:] = 20  # -60 dB of the peak
    samples[7_200:] = 20_000
    found = playback([(0.5, samples[:3_000].tobytes()), (0.6, samples[3_000:].tobytes())])
    assert found.audible == pytest.approx(0.5 + 0.3)


def test_the_rest_is_the_time_that_no_step_of_the_server_took() -> None:
    found = steps("text;dur=3.5, queue;dur=0.1, inference;dur=400.0, total;dur=405.2, audible;dur=455.0", 0.41)
    wanted = {"text": 0.0035, "queue": 0.0001, "inference": 0.4, "rest": 0.0064}
    assert found == {name: pytest.approx(seconds) for name, seconds in wanted.items()}


def test_a_stream_that_begins_with_silence_names_no_steps() -> None:
    assert steps("", 0.01) == {"text": 0.0, "queue": 0.0, "inference": 0.0, "rest": 0.01}
