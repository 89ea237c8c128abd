from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.engine import noise
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME


@pytest.mark.parametrize("frames", [1, 2, 7, 30])
def test_a_longer_sample_begins_with_a_shorter_one(frames: int) -> None:
    assert np.array_equal(noise.sample(5, 31)[: frames * SAMPLES_PER_FRAME], noise.sample(5, frames))


def test_seeds_differ() -> None:
    one, other = noise.sample(1, 40), noise.sample(2, 40)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_it_is_standard_gaussian() -> None:
    sampled = noise.sample(0, 100)
    assert sampled.dtype == np.float32
    assert sampled.mean() == pytest.approx(0, abs=0.02)
    assert sampled.std() == pytest.approx(1, abs=0.02)
