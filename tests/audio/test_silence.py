"""Where speech falls silent."""

from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.audio.silence import FRAME, frame_power, pause_in
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

SECOND = SAMPLE_RATE // FRAME  # frames


def tone(seconds: float, level: float = 1.0) -> Audio:
    return (level * np.sin(np.arange(round(seconds * SAMPLE_RATE)) / 5)).astype(np.float32)


def audio(*parts: tuple[float, float]) -> Audio:
    """Tones of these seconds and levels."""
    return np.concatenate([tone(*part) for part in parts])


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("loudness", [1.0, 0.01])
def test_the_longest_silence_is_the_pause(loudness: float, noise: float) -> None:
    plosive = ((0.1, 1), (0.06, noise), (0.02, 1))  # with the silence before it
    heard = audio(*plosive, (0.1, 0.1), (0.15, noise), (0.05, 1)) * np.float32(loudness)
    found = pause_in(frame_power(heard), 0, ends=False)
    assert found == pytest.approx(0.28 * SECOND, abs=2)


def test_a_pause_is_not_before_the_last_sound() -> None:
    heard = audio((0.1, 1), (0.2, 0), (0.1, 1), (0.1, 0))
    assert pause_in(frame_power(heard), round(0.3 * SECOND), ends=False) == pytest.approx(0.4 * SECOND, abs=2)


@pytest.mark.parametrize("heard", [audio((0.3, 1)), audio((0.2, 1), (0.04, 0), (0.2, 1)), tone(0), audio((0.3, 0))])
def test_no_pause(heard: Audio) -> None:
    assert pause_in(frame_power(heard), 0, ends=False) is None


def test_it_is_silent_after_the_end() -> None:
    assert pause_in(frame_power(tone(0.3)), 0, ends=True) == pytest.approx(0.3 * SECOND, abs=2)
    assert pause_in(frame_power(audio((0.3, 1), (0.1, 0))), 0, ends=True) == pytest.approx(0.3 * SECOND, abs=2)
    assert pause_in(frame_power(tone(0.3)), SECOND, ends=True) is None
