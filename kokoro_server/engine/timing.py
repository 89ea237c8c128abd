"""When each token of a result is spoken. Imports no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def starts(durations: NDArray[np.int64]) -> NDArray[np.int64]:
    """The frame at which each token of `Result.durations` begins; the first and last entries are the pads.

    `starts(d)[i] + d[i]` is where entry i ends. A frame is `protocol.SAMPLES_PER_FRAME` samples.
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(durations)[:-1]])
