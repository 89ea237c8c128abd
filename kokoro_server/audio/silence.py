"""Where speech falls silent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

FRAME = SAMPLE_RATE // 200  # 5 ms
LEAST = 10  # frames of a pause
QUIET = 10 ** (-32 / 10)  # as a share of the last word's loudest frame; the noise of some voices is not far below it


def pause_in(audio: Audio, earliest: int, *, ends: bool) -> int | None:
    """The sample, `earliest` at first, at which the longest silence of the audio begins. None if there is none.

    Where the audio `ends`, there is silence after it.
    """
    frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
    power = smoothed(np.einsum("ij,ij->i", frames, frames))
    quiet = np.concatenate([power < power.max(initial=0.0) * QUIET, np.full(LEAST if ends else 0, True)])
    first = -(-earliest // FRAME)
    edges = np.diff(np.concatenate([[False], quiet[first:], [False]]).astype(np.int8))
    begins, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = stops - begins
    if not len(lengths) or lengths.max() < LEAST:
        return None
    return min((first + int(begins[lengths.argmax()])) * FRAME, len(audio))


def smoothed(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Over each frame and its neighbours."""
    padded = np.pad(power, 1)
    return ((padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4).astype(np.float32)
