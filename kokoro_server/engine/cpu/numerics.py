"""The numbers and array types that the graphs and the kernels share. Imports neither onnx nor numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Signal = NDArray[np.float32]  # (time, channels)
Moments = NDArray[np.float64]  # of a signal, (2, channels): the means over time, and the means of squares

EPSILON = 1e-5  # equal to model.layers.EPSILON; to import that takes torch

# sin²(πr) / π for r from 0 to 1, as u² (a + b u + c u² ...) with u = r - r²: within 0.0005, and within 0.000013.
SINE_SQUARED = {"int8": (2.90347, 8.72482), "fp32": (3.156983, 5.998166, 6.979711)}
SNAKE_GAIN = 2 * math.pi  # a lowered snake is a 2π-th of its value; the next convolution's weights make up for it
SNAKE_TURNS = 1 / math.pi  # and its argument is counted in half turns
