"""Where a listener begins to hear something."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

AUDIBLE = 10 ** (-45 / 20)  # of the peak
SILENCE = 10 ** (-60 / 20)  # of full scale: the model's own silence is at least 18 dB below it
BLOCK = 4096  # samples: most speech begins in the first few blocks, and the rest is not looked at again


def first_audible(samples: NDArray[Any], peak: float | None = None) -> int | None:
    """The place of the first sample over -45 dB of the peak; None if all are zero or one is no number.

    `peak` is the largest absolute value, if the caller knows it.
    """
    if peak is None:
        peak = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
    return _first_over(samples, AUDIBLE * peak) if peak > 0 else None


def silent_lead(samples: NDArray[np.float32], most: int) -> int:
    """How many samples there are before the first sound, up to `most`."""
    lead = samples[:most]
    found = _first_over(lead, SILENCE)
    return len(lead) if found is None else found


def _first_over(samples: NDArray[Any], level: float) -> int | None:
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        loud = (block > level) | (block < -level)
        place = int(loud.argmax())
        if loud[place]:
            return start + place
    return None
