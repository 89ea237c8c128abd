"""The noise of a row, and the times of its tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kokoro_server.engine.model.kokoro import at_speed as model_at_speed
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME
from kokoro_server.engine.rows import at_speed, noise, token_starts


@pytest.mark.parametrize("speed", [0.25, 0.7, 0.9, 1.0, 1.1, 1.25, 1.4, 2.0, 4.0])
def test_durations_at_a_speed_add_up_to_what_it_says_and_none_is_lost(speed: float) -> None:
    durations = np.random.default_rng(0).integers(1, 9, (3, 90))
    counts = (90, 60, 1)
    lengths = Lengths(counts, 90, Placement(torch.device("cpu"), torch.float32))
    batched = model_at_speed(torch.tensor(durations), torch.full((3,), speed), lengths)
    for row, count, made in zip(durations, counts, batched, strict=True):
        alone = at_speed(row[:count], speed)
        assert (alone >= 1).all()
        assert made.tolist() == [*alone, *[0] * (90 - count)]
        assert alone.sum() == pytest.approx(max(row[:count].sum() / speed, count), abs=1 if speed <= 1.4 else 20)
    assert speed != 1 or np.array_equal(alone, row[:count])


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
