"""The random excitation of a row's harmonic source. Imports no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import SAMPLES_PER_FRAME


def sample(seed: int, frames: int) -> NDArray[np.float32]:
    """Gaussian noise for `frames` frames. It is generated in order, so a longer sample begins with a shorter one."""
    generator = np.random.Generator(np.random.PCG64(seed % 2**64))
    return generator.standard_normal(frames * SAMPLES_PER_FRAME, dtype=np.float32)
