"""What the kernels need of the model, as a file beside the graphs. Needs no numba."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kokoro_server.engine.cpu.numerics import Array

# A stage's blocks: that on its source, then those beside each other; and a block's convolutions, in their order.
BLOCKS = (
    ("noise_res.0", "resblocks.0", "resblocks.1", "resblocks.2"),
    ("noise_res.1", "resblocks.3", "resblocks.4", "resblocks.5"),
)
CONVOLUTIONS = tuple(f"convs{which}.{number}" for number in range(3) for which in (1, 2))
FILE = "kernels.npz"  # in a build for processors that have kernels
SLOPES = "slopes"


class ConvolutionWeights(NamedTuple):
    """Of a convolution and the norm and activation before it."""

    matrix: Array  # (taps * channels, outputs), signed bytes
    scales: Array  # of its columns
    bias: Array
    shrink: Array  # what the activation is multiplied with before it is quantized, by channel
    geometry: Array  # taps, dilation, padding; where the norm's scales and shifts begin in the styles


def save(path: Path, weights: Mapping[str, ConvolutionWeights], slopes: Array) -> None:
    arrays = {f"{key}.{name}": array for key, each in weights.items() for name, array in each._asdict().items()}
    np.savez(path, **arrays, **{SLOPES: slopes})  # type: ignore[arg-type]


def load(path: Path) -> tuple[dict[str, ConvolutionWeights], Array]:
    with np.load(path) as file:
        keys = [f"{block}.{convolution}" for blocks in BLOCKS for block in blocks for convolution in CONVOLUTIONS]
        weights = {
            key: ConvolutionWeights(*(file[f"{key}.{name}"] for name in ConvolutionWeights._fields)) for key in keys
        }
        return weights, file[SLOPES]
