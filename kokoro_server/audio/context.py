"""Cuts away what was spoken only for the sake of the word after it."""

from __future__ import annotations

import numpy as np

from kokoro_server.audio.join import faded_in
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Result
from kokoro_server.engine.rows import token_starts

EARLY = 6  # frames by which a sound may be heard before its duration begins


def without_context(result: Result, tokens: int) -> Result:
    """The result without its first `tokens`, of which the last two are a mark and a space.

    The cut is between two frames, in the silence that the mark makes: where the louder of the two is softest.
    """
    starts = token_starts(result.durations)
    mark, first = int(starts[tokens - 1]), int(starts[tokens + 1])
    low = max(0, mark - EARLY)
    frames = result.audio[low * SAMPLES_PER_FRAME : first * SAMPLES_PER_FRAME].reshape(-1, SAMPLES_PER_FRAME)
    power = np.square(frames).mean(axis=1)
    cut = low + 1 + int(np.maximum(power[:-1], power[1:]).argmin())
    durations = np.concatenate([[first - cut], result.durations[tokens + 1 :]])
    return Result(faded_in(result.audio[cut * SAMPLES_PER_FRAME :]), durations)
