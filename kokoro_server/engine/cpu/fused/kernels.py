"""The kernels of a residual stage, compiled by numba for this processor. They run without the GIL.

Signals are (time, channels) in single precision. A kernel computes a share of the time: blocks or steps `begin` to
`end`. `Statistics` are two rows of doubles: each channel's sum over that share, and the sum of its squares.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core.codegen import get_host_cpu_features

from kokoro_server.engine.cpu.fused import tile, vectors
from kokoro_server.engine.cpu.fused.tile import TileShape, multiply
from kokoro_server.engine.cpu.fused.vectors import (
    LOW_STEPS,
    LOW_ZERO,
    fill,
    finish,
    prefetch,
    quantize,
    quantize_twice,
    shrink,
    snake,
)
from kokoro_server.engine.cpu.instructions import Instructions, instructions

MAX_BLOCK = 192  # steps that are quantized with one range, and whose signals stay in a core's cache

INT, FLOAT, SIGNAL, STATISTICS = numba.intp, numba.float32, numba.float32[:, ::1], numba.float64[:, ::1]

# LLVM's names for the instructions.
FEATURES = {
    Instructions.AMX_INT8: "+amx-int8",
    Instructions.AVX512_VNNI: "+avx512vnni",
    Instructions.AVX_VNNI: "+avxvnni",
    Instructions.ARM_I8MM: "+i8mm",
    Instructions.ARM_DOTPROD: "+dotprod",
    Instructions.AVX512_BW: "+avx512bw",
    Instructions.AVX2: "+avx2",
}


class Kernels(NamedTuple):
    shape: TileShape
    convolve: Any
    convolve_two_bytes: Any
    add: Any
    measure: Any
    mean_leaky: Any


def compile_all(which: Instructions, cache: Path | None) -> Kernels:
    """All kernels, compiled now or read from the folder `cache`, which serves processors like this one only."""
    shape = tile.SHAPES[which]
    _add_llvm_feature()
    if cache is not None:
        numba.config.CACHE_DIR = str(cache)

    def compiled(signature: Any, function: Callable[..., None]) -> Any:
        options: dict[str, Any] = {"nogil": True, "fastmath": True, "error_model": "numpy", "cache": cache is not None}
        return numba.njit(signature, **options)(function)

    return Kernels(
        shape,
        compiled(numba.void(*[INT] * 21), _convolve(shape)),
        compiled(numba.void(*[INT] * 17), _convolve_two_bytes(shape)),
        compiled(numba.void(SIGNAL, SIGNAL, SIGNAL, STATISTICS, INT, INT), _add),
        compiled(numba.void(SIGNAL, STATISTICS, INT, INT), _measure),
        compiled(numba.void(SIGNAL, SIGNAL, SIGNAL, SIGNAL, FLOAT, INT, INT), _mean_leaky),
    )


def _add_llvm_feature() -> None:
    """Add the feature that the tiles need to those that LLVM compiles for.

    On ARM, LLVM derives features from the processor's name alone. If it does not know the name, the instruction would
    end the process.
    """
    known = numba.config.CPU_FEATURES  # from the environment
    listed = get_host_cpu_features() if known is None else known
    needed = FEATURES[instructions()]
    if needed not in listed.split(","):
        numba.config.CPU_FEATURES = f"{listed},{needed}".lstrip(",")


def workspace_bytes(shape: TileShape, channels: int, halo: int) -> int:
    """The scratch memory that one thread needs for `convolve`."""
    rows = MAX_BLOCK + halo + shape.rows
    sums = (MAX_BLOCK + shape.rows) * shape.columns * 4
    return rows * channels * 5 + sums + 2 * 64


def workspace_bytes_two(shape: TileShape, channels: int, outputs: int, halo: int) -> int:
    """The same for `convolve_two_bytes`."""
    return workspace_bytes(shape, channels, halo) + (MAX_BLOCK + halo + shape.rows) * channels + 4 * outputs


def _convolve(shape: TileShape) -> Callable[..., None]:
    number_of_shape, offset = tile.number(shape), vectors.SIGN if shape.signed else 0
    rows_at_once, columns = shape.rows, shape.columns

    def convolve(
        x: int, steps: int, channels: int, outputs: int, factor: int, shift: int, shrink: int,
        weights: int, column_sums: int, scales: int, bias: int, base: int, y: int, statistics: int,
        taps: int, dilation: int, padding: int, block: int, workspace: int, begin: int, end: int,
    ) -> None:  # fmt: skip
        """The norm, the activation and the convolution of `x`, plus `base`. Arrays are addresses.

        `outputs` is a multiple of a tile's columns, `channels` of 16; `statistics` are those of `y`. `block` steps, at
        most MAX_BLOCK, are quantized with one range.
        """
        halo = (taps - 1) * dilation
        rows = block + halo + rows_at_once
        activated = (workspace + 63) // 64 * 64
        quantized = activated + rows * channels * 4
        sums = (quantized + rows * channels + 63) // 64 * 64
        for number in range(begin, end):
            first = number * block
            last = min(steps, first + block)
            # `top` is the first row that the block's taps read. Rows outside `low` to `high` are zero, not in x.
            top = first - padding
            low, high = max(0, top), min(steps, last - padding + halo)
            least, greatest = snake(x + low * channels * 4, high - low, channels, factor, shift, shrink, activated)
            step = max((greatest - least) / np.float32(255), np.float32(1e-12))
            zero = np.floor(-least / step + np.float32(0.5))
            zero_byte = np.intp(zero) ^ offset
            fill(quantized, (low - top) * channels, zero_byte)
            quantize(
                activated, (high - low) * channels, quantized + (low - top) * channels,
                np.float32(1) / step, zero + np.float32(0.5), offset,
            )  # fmt: skip
            fill(quantized + (high - top) * channels, (rows - high + top) * channels, zero_byte)
            for panel in range(outputs // columns):
                at = panel * columns
                place = (first * outputs + at) * 4
                for row in range(0, last - first, rows_at_once):
                    ahead = place + row * outputs * 4
                    prefetch(rows_at_once, y + ahead, outputs, columns, 1)
                    if base:
                        prefetch(rows_at_once, base + ahead, outputs, columns, 0)
                    multiply(
                        number_of_shape, quantized + row * channels, channels, dilation * channels, taps, channels,
                        weights + at * taps * channels, sums + row * columns * 4, columns * 4,
                    )  # fmt: skip
                finish(
                    columns, sums, last - first, np.intp(zero) - offset, column_sums + at * 4, step, scales + at * 4,
                    bias + at * 4, base + place if base else 0, y + place, outputs,
                    statistics + at * 8, statistics + (outputs + at) * 8,
                )  # fmt: skip

    return convolve


def _convolve_two_bytes(shape: TileShape) -> Callable[..., None]:
    number_of_shape, offset = tile.number(shape), vectors.SIGN if shape.signed else 0
    rows_at_once, columns = shape.rows, shape.columns
    low_zero, low_step = LOW_ZERO, np.float32(1 / LOW_STEPS)

    def convolve_two_bytes(
        x: int, steps: int, channels: int, outputs: int, factors: int, weights: int, column_sums: int, scales: int,
        bias: int, y: int, statistics: int, taps: int, padding: int, block: int, workspace: int, begin: int, end: int,
    ) -> None:  # fmt: skip
        """The convolution of `x`, whose channels are multiplied by `factors` and quantized with 16 bits.

        As `convolve` otherwise. `y` has steps + 2 * padding - taps + 1 steps.
        """
        made, halo = steps + 2 * padding - taps + 1, taps - 1
        rows = block + halo + rows_at_once
        shrunk = (workspace + 63) // 64 * 64
        high_bytes = shrunk + rows * channels * 4
        low_bytes = high_bytes + rows * channels
        no_bias = (low_bytes + rows * channels + 63) // 64 * 64
        sums = no_bias + outputs * 4
        fill(no_bias, outputs * 4, 0)
        for number in range(begin, end):
            first = number * block
            last = min(made, first + block)
            top = first - padding
            low, high = max(0, top), min(steps, last - padding + halo)
            least, greatest = shrink(x + low * channels * 4, high - low, channels, factors, shrunk)
            step = max((greatest - least) / np.float32(255), np.float32(1e-12))
            zero = np.floor(-least / step + np.float32(0.5))
            fill(high_bytes, rows * channels, np.intp(zero) ^ offset)
            fill(low_bytes, rows * channels, low_zero ^ offset)
            at = (low - top) * channels
            quantize_twice(
                shrunk, (high - low) * channels, high_bytes + at, low_bytes + at,
                np.float32(1) / step, zero + np.float32(0.5), offset,
            )  # fmt: skip
            for panel in range(outputs // columns):
                at = panel * columns
                place = y + (first * outputs + at) * 4
                for part in range(2):
                    bytes_ = low_bytes if part else high_bytes
                    for row in range(0, last - first, rows_at_once):
                        multiply(
                            number_of_shape, bytes_ + row * channels, channels, channels, taps, channels,
                            weights + at * taps * channels, sums + row * columns * 4, columns * 4,
                        )  # fmt: skip
                    finish(
                        columns, sums, last - first, (low_zero if part else np.intp(zero)) - offset,
                        column_sums + at * 4, step * low_step if part else step, scales + at * 4,
                        (no_bias if part else bias) + at * 4, place if part else 0, place, outputs,
                        statistics + at * 8, statistics + (outputs + at) * 8,
                    )  # fmt: skip

    return convolve_two_bytes


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
