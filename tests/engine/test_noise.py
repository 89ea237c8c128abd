from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.engine import noise
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME


@pytest.mark.parametrize("frames", [1, 2, 7, 30])
def test_a_longer_draw_begins_with_a_shorter_one(frames: int) -> None:
    assert np.array_equal(noise.draw(5, 31)[: frames * SAMPLES_PER_FRAME], noise.draw(5, frames))


def test_seeds_differ() -> None:
    one, other = noise.draw(1, 40), noise.draw(2, 40)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_it_is_standard_gaussian() -> None:
    drawn = noise.draw(0, 100)
    assert drawn.dtype == np.float32
    assert drawn.mean() == pytest.approx(0, abs=0.02)
    assert drawn.std() == pytest.approx(1, abs=0.02)
