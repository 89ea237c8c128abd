"""The noise of a row, and the times of its tokens."""

from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.engine.protocol import SAMPLES_PER_FRAME
from kokoro_server.engine.rows import noise, token_starts


@pytest.mark.parametrize("frames", [1, 2, 7, 30])
def test_longer_noise_begins_with_the_shorter(frames: int) -> None:
    assert np.array_equal(noise(5, 31)[: frames * SAMPLES_PER_FRAME], noise(5, frames))


def test_seeds_differ() -> None:
    assert abs(np.corrcoef(noise(1, 40), noise(2, 40))[0, 1]) < 0.03


def test_noise_is_standard_gaussian() -> None:
    sampled = noise(0, 100)
    assert sampled.dtype == np.float32
    assert sampled.mean() == pytest.approx(0, abs=0.02)
    assert sampled.std() == pytest.approx(1, abs=0.02)


def test_each_token_starts_where_the_one_before_it_ends() -> None:
    durations = np.array([3, 1, 4, 2], np.int64)
    starts = token_starts(durations)
    assert starts.tolist() == [0, 3, 4, 8]
    assert (starts + durations)[:-1].tolist() == starts[1:].tolist()


def test_a_row_with_nothing_to_say() -> None:
    assert token_starts(np.zeros(2, np.int64)).tolist() == [0, 0]
