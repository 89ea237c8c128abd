"""Words that are spoken only for the sake of the next one."""

from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.audio.context import without_context
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Result


@pytest.mark.parametrize("early", range(6))  # frames by which each sound is heard before its duration begins
def test_nothing_of_the_context_and_all_of_the_word_is_heard(early: int) -> None:
    durations = np.array([14, 4, 5, 9, 5, 3, 6, 4, 8, 1])  # pad, two sounds, a mark, a space, three sounds, a mark, pad
    sounds = [0, 1, 1, 0, 0, 2, 2, 2, 0, 0]
    which = np.roll(np.repeat(sounds, durations * SAMPLES_PER_FRAME), -early * SAMPLES_PER_FRAME)
    tone = np.sin(np.arange(len(which)) * 0.3).astype(np.float32) * 0.3
    floor = np.random.default_rng(early).normal(scale=1e-5, size=len(which)).astype(np.float32)
    found = without_context(Result(np.where(which > 0, tone, floor).astype(np.float32), durations), 4)
    assert len(found.audio) == found.durations.sum() * SAMPLES_PER_FRAME
    assert list(found.durations[1:]) == list(durations[5:])
    word = (3 + 6 + 4) * SAMPLES_PER_FRAME
    loud = np.flatnonzero(np.abs(found.audio) > 1e-3)
    assert loud[0] == pytest.approx((found.durations[0] - early) * SAMPLES_PER_FRAME, abs=2)
    assert loud[-1] - loud[0] == pytest.approx(word, abs=4)
    assert np.abs(found.audio[: loud[0]]).max() < 1e-4
