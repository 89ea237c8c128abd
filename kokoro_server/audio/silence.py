"""Where speech falls silent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

FRAME = SAMPLE_RATE // 200  # 5 ms
LEAST = 10  # frames of a pause
QUIET = 10 ** (-32 / 10)  # as a share of the last word's loudest frame; the noise of some voices is not far below it


def frame_power(audio: Audio) -> NDArray[np.float32]:
    """Of each whole frame."""
    frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
    power: NDArray[np.float32] = np.einsum("ij,ij->i", frames, frames)
    return power


def pause_in(power: NDArray[np.float32], earliest: int, *, ends: bool) -> int | None:
    """The frame, `earliest` at first, at which the longest silence begins. None if there is none.

    Where the sound `ends`, there is silence after it.
    """
    level = smoothed(power)
    quiet = np.concatenate([level < level.max(initial=0.0) * QUIET, np.full(LEAST if ends else 0, True)])
    edges = np.diff(np.concatenate([[False], quiet[earliest:], [False]]).astype(np.int8))
    begins, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = stops - begins
    if not len(lengths) or lengths.max() < LEAST:
        return None
    return earliest + int(begins[lengths.argmax()])


def smoothed(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Over each frame and its neighbours."""
    padded = np.pad(power, 1)
    return ((padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4).astype(np.float32)
