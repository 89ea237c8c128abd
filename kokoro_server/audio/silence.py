"""Where speech falls silent."""

from __future__ import annotations

import numpy as np

from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

FRAME = SAMPLE_RATE // 200  # 5 ms
LEAST = 10  # frames of a pause
QUIET = 10 ** (-32 / 10)  # as a share of the loudest frame of the last word: the noise of some voices is not far below it


def pause_in(audio: Audio, earliest: int, *, ends: bool) -> int | None:
    """The sample, `earliest` at first, at which the longest silence of the audio begins. None if there is none.

    Where the audio `ends`, there is silence after it.
    """
    frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
    power = np.einsum("ij,ij->i", frames, frames)
    smoothed = np.convolve(power, np.full(3, 1 / 3), "same")
    quiet = np.concatenate([smoothed < smoothed.max(initial=0.0) * QUIET, np.full(LEAST if ends else 0, True)])
    first = -(-earliest // FRAME)
    edges = np.diff(np.concatenate([[False], quiet[first:], [False]]).astype(np.int8))
    begins, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = stops - begins
    if not len(lengths) or lengths.max() < LEAST:
        return None
    return min((first + int(begins[lengths.argmax()])) * FRAME, len(audio))
