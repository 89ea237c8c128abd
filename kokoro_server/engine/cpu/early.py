"""Which frames of a row are made early, so that they are heard while the rest is made."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.speed import EARLY_LEVEL, level

MIN_ROW = 40  # frames of speech; a word's norms cannot be predicted as well
MIN_SPEECH = 12  # frames that are worth it
SPARE = 2  # frames that are still to be heard when the next ones are there, beside those before the first phoneme
LEAD = 3  # frames before the later half of the silence: where speech can begin, with a margin
# The shares of a pass in time. Around a window, the first stage needs more frames on both sides than the last.
FIRST_STAGE, LAST_STAGE = 0.25, 0.47
FIRST_AROUND, LAST_AROUND = 14, 3
MOST = 0.6  # of the speech may be made early: the rest is nearer to what the model says

Window = tuple[int, int]  # the first frame, or step of a stage, and that after the last


def early_windows(lengths: NDArray[np.int64], real_time_factor: float | None) -> list[Window]:
    """Two windows, each heard until what comes after it is made; none if the row is too short or the machine too slow.

    `lengths` are those of the tokens. The same row has the same windows on a machine of the same level of speed.
    """
    if not real_time_factor or level(real_time_factor) > EARLY_LEVEL:
        return []
    pace, frames = level(real_time_factor), int(lengths.sum())
    silence = int(lengths[0])
    speech = frames - silence - int(lengths[-2:].sum())  # without the mark at its end, which is silent
    if speech < MIN_ROW:
        return []
    begin = max(0, silence // 2 - LEAD)
    rest = pace * (FIRST_STAGE + LAST_STAGE) * frames  # frames that are heard while the rest is made
    around = pace * (FIRST_STAGE * FIRST_AROUND + LAST_STAGE * LAST_AROUND)
    gained = 1 - pace * (FIRST_STAGE + LAST_STAGE)  # frames for each frame of a window
    for first in range(MIN_SPEECH, frames):
        second = max(0, math.ceil((rest + SPARE + around - first) / gained))
        if first + second > MOST * speech:
            return []
        cut, end = silence + first, silence + first + second
        if not second:
            return [(begin, cut)]
        if pace * (FIRST_STAGE + LAST_STAGE) * second + around + SPARE <= first:
            return [(begin, cut), (cut, end)]
    return []
