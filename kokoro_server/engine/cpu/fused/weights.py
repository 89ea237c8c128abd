"""The weights that the kernels need, in a file beside the graphs. Needs no numba."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kokoro_server.engine.cpu.numerics import Array

# A stage's blocks, first the one on its source, then the parallel ones; and a block's convolutions in order.
BLOCKS = (
    ("noise_res.0", "resblocks.0", "resblocks.1", "resblocks.2"),
    ("noise_res.1", "resblocks.3", "resblocks.4", "resblocks.5"),
)
CONVOLUTIONS = tuple(f"convs{which}.{number}" for number in range(3) for which in (1, 2))
UPSAMPLING = "ups.1"  # between the stages, by kernels where products of bytes are exact
FILE = "kernels.npz"  # in a build for processors that have kernels
SLOPES = "slopes"


class ConvolutionWeights(NamedTuple):
    """The weights of a convolution, with the norm and activation before it, if there are any."""

    matrix: Array  # (taps * channels, outputs), signed bytes
    scales: Array  # of the matrix's columns
    bias: Array
    shrink: Array  # factor of each channel before it is quantized
    geometry: Array  # taps, dilation, padding, and where the norm's scales and shifts begin in the styles


def save(path: Path, weights: Mapping[str, ConvolutionWeights], slopes: Array) -> None:
    arrays = {f"{key}.{name}": array for key, each in weights.items() for name, array in each._asdict().items()}
    np.savez(path, **arrays, **{SLOPES: slopes})  # type: ignore[arg-type]


def load(path: Path) -> tuple[dict[str, ConvolutionWeights], Array]:
    with np.load(path) as file:
        keys = {name.rpartition(".")[0] for name in file.files if name != SLOPES}
        weights = {
            key: ConvolutionWeights(*(file[f"{key}.{name}"] for name in ConvolutionWeights._fields)) for key in keys
        }
        return weights, file[SLOPES]
