"""The kernels of a residual stage, compiled by numba for this processor. They hold no lock of Python's.

Signals are (time, channels) in single precision. A kernel computes a share of the time: blocks `begin` to `end`, or
steps. `Statistics`, two rows of doubles, have the sums of each channel over that share and of its squares.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from kokoro_server.engine.cpu.fused import tile, vectors
from kokoro_server.engine.cpu.fused.tile import Shape
from kokoro_server.engine.cpu.instructions import Instructions, instructions

MAX_BLOCK = 192  # steps that are quantized with one range; their signals stay in a core's cache meanwhile

# All that a kernel depends on are constants of this module: numba would not find again what it kept of a function
# inside another one. On a processor that has no kernels any shape does, since nothing is compiled.
SHAPE = tile.SHAPES.get(instructions(), tile.SHAPES[Instructions.AVX_VNNI])
MULTIPLY, QUANTIZE = tile.make(SHAPE), vectors.quantize_to(SHAPE.signed)
ROWS, COLUMNS, OFFSET = SHAPE.rows, SHAPE.columns, vectors.SIGN if SHAPE.signed else 0

INT, FLOAT, SIGNAL, STATISTICS = numba.intp, numba.float32, numba.float32[:, ::1], numba.float64[:, ::1]


class Kernels(NamedTuple):
    shape: Shape
    convolve: Any
    add: Any
    measure: Any
    mean_leaky: Any


def compile_all(cache: Path | None) -> Kernels:
    """All kernels, compiled now or taken from the folder `cache`, which is of use to processors like this one only."""
    if cache is not None:
        numba.config.CACHE_DIR = str(cache)

    def compiled(signature: Any, function: Callable[..., None]) -> Any:
        options: dict[str, Any] = {"nogil": True, "fastmath": True, "error_model": "numpy", "cache": cache is not None}
        return numba.njit(signature, **options)(function)

    return Kernels(
        SHAPE,
        compiled(numba.void(*[INT] * 21), _convolve),
        compiled(numba.void(SIGNAL, SIGNAL, SIGNAL, STATISTICS, INT, INT), _add),
        compiled(numba.void(SIGNAL, STATISTICS, INT, INT), _measure),
        compiled(numba.void(SIGNAL, SIGNAL, SIGNAL, SIGNAL, FLOAT, INT, INT), _mean_leaky),
    )


def workspace_bytes(shape: Shape, channels: int, halo: int) -> int:
    """The scratch memory that one thread needs for `convolve`."""
    rows = MAX_BLOCK + halo + shape.rows
    sums = (MAX_BLOCK + shape.rows) * shape.columns * 4
    return rows * channels * 5 + sums + 2 * 64


def _convolve(
    x: int, steps: int, channels: int, outputs: int, factor: int, shift: int, shrink: int,
    weights: int, column_sums: int, scales: int, bias: int, base: int, y: int, statistics: int,
    taps: int, dilation: int, padding: int, block: int, workspace: int, begin: int, end: int,
) -> None:  # fmt: skip
    """The norm, the activation and the convolution of `x`, plus `base`. Arrays are addresses.

    `outputs` is a multiple of a tile's columns, `channels` of 16; `statistics` are those of `y`. `block` steps, at
    most MAX_BLOCK, are quantized with one range.
    """
    halo = (taps - 1) * dilation
    rows = block + halo + ROWS
    activated = (workspace + 63) // 64 * 64
    quantized = activated + rows * channels * 4
    sums = (quantized + rows * channels + 63) // 64 * 64
    for number in range(begin, end):
        first = number * block
        last = min(steps, first + block)
        # The rows that the block's taps read, and those of them that there are: what lies outside is zero.
        top = first - padding
        low, high = max(0, top), min(steps, last - padding + halo)
        least, greatest = vectors.snake(x + low * channels * 4, high - low, channels, factor, shift, shrink, activated)
        step = max((greatest - least) / np.float32(255), np.float32(1e-12))
        zero = np.floor(-least / step + np.float32(0.5))
        zero_byte = np.intp(zero) ^ OFFSET
        vectors.fill(quantized, (low - top) * channels, zero_byte)
        QUANTIZE(
            activated, (high - low) * channels, quantized + (low - top) * channels,
            np.float32(1) / step, zero + np.float32(0.5),
        )  # fmt: skip
        vectors.fill(quantized + (high - top) * channels, (rows - high + top) * channels, zero_byte)
        for panel in range(outputs // COLUMNS):
            at = panel * COLUMNS
            for row in range(0, last - first, ROWS):
                MULTIPLY(
                    quantized + row * channels, channels, dilation * channels, taps, channels,
                    weights + at * taps * channels, sums + row * COLUMNS * 4, COLUMNS * 4,
                )  # fmt: skip
            place = (first * outputs + at) * 4
            vectors.finish(
                sums, last - first, COLUMNS, np.intp(zero) - OFFSET, column_sums + at * 4, step, scales + at * 4,
                bias + at * 4, base + place if base else 0, y + place, outputs,
                statistics + at * 8, statistics + (outputs + at) * 8,
            )  # fmt: skip


def _add(a: Any, b: Any, y: Any, statistics: Any, begin: int, end: int) -> None:
    """y = a + b, and its statistics."""
    channels = a.shape[1]
    for step in range(begin, end):
        for channel in range(channels):
            value = a[step, channel] + b[step, channel]
            y[step, channel] = value
            statistics[0, channel] += value
            statistics[1, channel] += value * value


def _measure(x: Any, statistics: Any, begin: int, end: int) -> None:
    channels = x.shape[1]
    for step in range(begin, end):
        for channel in range(channels):
            value = x[step, channel]
            statistics[0, channel] += value
            statistics[1, channel] += value * value


def _mean_leaky(a: Any, b: Any, c: Any, y: Any, slope: float, begin: int, end: int) -> None:
    """The mean of three signals, leakily rectified."""
    channels = a.shape[1]
    for step in range(begin, end):
        for channel in range(channels):
            value = (a[step, channel] + b[step, channel] + c[step, channel]) * np.float32(1 / 3)
            y[step, channel] = max(value, value * slope)
