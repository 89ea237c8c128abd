"""What the stream benchmark makes of arrival times."""

from __future__ import annotations

import pytest

from benchmarks.stream_bench import BYTES_PER_SECOND, playback


def test_audio_that_comes_before_it_is_needed_never_stalls() -> None:
    found = playback([(0.5, BYTES_PER_SECOND), (1.2, 2 * BYTES_PER_SECOND), (3.5, BYTES_PER_SECOND)])
    assert (found.start, found.stalls, found.audio, found.total) == (0.5, (), 4.0, 3.5)


def test_late_audio_is_a_stall_and_what_follows_is_heard_later() -> None:
    found = playback([(0.5, BYTES_PER_SECOND), (2.0, BYTES_PER_SECOND), (3.1, BYTES_PER_SECOND)])
    assert found.stalls == (pytest.approx(0.5), pytest.approx(0.1))
