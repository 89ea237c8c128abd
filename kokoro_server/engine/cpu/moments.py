"""Predicts the moments of the last stage's norms, so that the stage can run on a window of its signals.

Each norm goes by the mean and variance of a signal over the whole row. They follow closely from what the last stage is
given: a linear map of averages over time of its inputs, fitted on thousands of texts in all voices. `data/README.md`
says how, and how near the sound is to that of measured moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.cpu.fused.stage import Moments
from kokoro_server.engine.cpu.numerics import Signal

FLOOR = 1e-4  # is added to a variance before its logarithm is taken
MOST_DEVIATIONS = 8.0
Vector = NDArray[np.float32]


def features(result0: Signal, source1: Signal, addend1: Signal, style: Vector) -> Vector:
    """What the moments are predicted from. `style` is the decoder's half."""
    steps = np.diff(result0, axis=0)
    averages = [
        result0.mean(0),
        np.square(result0).mean(0),
        np.maximum(result0, result0 * np.float32(0.1)).mean(0),
        np.square(steps).mean(0),
        np.sqrt(np.abs(result0) + np.float32(1e-6)).mean(0),
    ]
    for signal in (source1, addend1):
        averages += [signal.mean(0), np.log(signal.var(0) + FLOOR)]
    return np.concatenate([*averages, style]).astype(np.float32)


class MomentPredictor:
    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self._centre, self._scale = file["centre"], file["scale"]
            self._inwards, self._outwards = file["inwards"].astype(np.float32), file["outwards"].astype(np.float32)
            self._offset, self._spread = file["offset"], file["spread"]  # (convolutions, 2, channels)

    def __call__(self, found: Vector) -> list[Sequence[Moments]]:
        """For each block of the stage, the moments before each of its convolutions."""
        deviations = np.clip((found - self._centre) / self._scale, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        predicted = (deviations @ self._inwards @ self._outwards).reshape(self._offset.shape)
        mean, log_variance = np.moveaxis(predicted * self._spread + self._offset, 1, 0).astype(np.float64)
        variance = np.maximum(np.exp(log_variance) - FLOOR, 0)
        moments = np.stack([mean, variance + mean * mean], 1)
        return [list(moments[at : at + 6]) for at in range(0, len(moments), 6)]
