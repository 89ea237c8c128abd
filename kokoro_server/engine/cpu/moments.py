"""Predicts the moments of the norms in both stages, so that a stage can run on a window of its signals.

Each norm goes by the mean and variance of a signal over the whole row. They follow from what the first stage is given,
by a linear map of averages over time that was fitted on thousands of texts in all voices. data/README.md says how, and
how near the sound is to that of measured moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.cpu.numerics import Array, Moments, Signal

TABLE = Path(__file__).with_name("data") / "moments.npz"  # a build whose weights it was fitted on has a copy
FLOOR = 1e-4  # is added to a variance before its logarithm is taken
MOST_DEVIATIONS = 8.0
# The norms of a stage by the convolutions that they stand before: the first ones of the three blocks share theirs.
NORMS = [[0, 1, 2, 3, 4, 5], *([6, *range(first, first + 5)] for first in (7, 12, 17))]
Vector = NDArray[np.float32]
OfStage = Sequence[Sequence[Moments]]  # for each block of a stage, the moments before each of its convolutions


def features(
    source0: Signal, addend0: Signal, source1: Signal, style: Vector, measure: Callable[[Signal], Moments]
) -> Vector:
    """What the moments are predicted from. `style` is the decoder's half; `measure` gives a signal's moments."""
    averages: list[Array] = []
    for signal in (addend0, source0):
        mean, square = measure(signal)
        averages += [mean, square, *_bends(signal), mean, _log_variance(mean, square)]
    mean, square = measure(source1)
    return np.concatenate([*averages, mean, _log_variance(mean, square), style]).astype(np.float32)


def _bends(signal: Signal) -> Iterator[Array]:
    """Averages over time that mean and variance do not determine."""
    yield np.maximum(signal, signal * np.float32(0.1)).mean(0)
    yield np.square(np.diff(signal, axis=0)).mean(0)
    yield np.sqrt(np.abs(signal) + np.float32(1e-6)).mean(0)


def _log_variance(mean: Array, square: Array) -> Array:
    logarithm: Array = np.log(np.maximum(square - mean * mean, 0) + FLOOR)
    return logarithm


def fitted_on(state: Mapping[str, Array]) -> bool:
    """Whether the map was fitted on these weights."""
    with np.load(TABLE) as table:
        return str(table["weights"]) == fingerprint(state)


def fingerprint(state: Mapping[str, Array]) -> str:
    """Of the weights that the moments depend on."""
    digest = sha256()
    for name in sorted(state):
        if name.startswith("decoder."):
            digest.update(state[name].tobytes())
    return digest.hexdigest()


class MomentPredictor:
    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self._centre, self._scale = file["centre"], file["scale"]
            self._inwards = file["inwards"].astype(np.float32)
            self._outwards = [file[f"outwards{stage}"] for stage in range(2)]  # in bytes
            # What a coordinate's bytes count, and of each norm the average and the spread: (22, 2, channels)
            self._steps, self._offsets, self._spreads = (
                [file[f"{name}{stage}"] for stage in range(2)] for name in ("step", "offset", "spread")
            )

    def __call__(self, found: Vector) -> tuple[OfStage, OfStage]:
        """The moments in both stages."""
        deviations = np.clip((found - self._centre) / self._scale, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        coordinates = deviations @ self._inwards
        first, last = (self._of_stage(stage, coordinates) for stage in range(2))
        return first, last

    def _of_stage(self, stage: int, coordinates: Vector) -> OfStage:
        predicted = (coordinates * self._steps[stage]) @ self._outwards[stage].astype(np.float32)
        predicted = predicted.reshape(self._offsets[stage].shape) * self._spreads[stage] + self._offsets[stage]
        mean, log_variance = np.moveaxis(predicted, 1, 0).astype(np.float64)
        moments = np.stack([mean, np.maximum(np.exp(log_variance) - FLOOR, 0) + mean * mean], 1)
        return [[moments[norm] for norm in block] for block in NORMS]
