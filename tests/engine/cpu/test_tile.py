"""Products of bytes are exact, also those of the greatest bytes that there may be."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from kokoro_server.engine.cpu.fused import tile
from kokoro_server.engine.cpu.fused.kernels import Kernels
from kokoro_server.engine.cpu.fused.tile import TileShape
from kokoro_server.engine.cpu.instructions import Instructions
from kokoro_server.engine.cpu.quantization import GROUP_LIMIT, GROUP_QUADS, quantize_in_groups
from tests.assets.sandbox import REPOSITORY
from tests.engine.cpu.conftest import RUNNABLE

Bytes = NDArray[np.int8]
TAPS, CHANNELS = 11, 256
needs_kernels = pytest.mark.skipif(not RUNNABLE, reason="no kernels for this processor")


def products(shape: TileShape, signal: NDArray[np.generic], matrix: Bytes, dilation: int) -> NDArray[np.int32]:
    """A tile's sums."""
    packed, out = tile.pack(matrix, shape), np.zeros((shape.rows, shape.columns), np.int32)
    compiled_product(shape)(signal.ctypes.data, packed.ctypes.data, out.ctypes.data, dilation * CHANNELS)
    return out


@functools.cache
def compiled_product(shape: TileShape) -> Callable[[int, int, int, int], None]:
    number, multiply, columns = tile.number(shape), tile.multiply, shape.columns

    @numba.njit
    def product(a: int, weights: int, out: int, dilated: int) -> None:
        multiply(number, a, CHANNELS, dilated, TAPS, CHANNELS, weights, out, columns * 4)

    compiled: Callable[[int, int, int, int], None] = product
    return compiled


def numpys(shape: TileShape, signal: NDArray[np.generic], matrix: Bytes, dilation: int) -> NDArray[np.int64]:
    taps = matrix.astype(np.int64).reshape(TAPS, CHANNELS, -1)
    wide = signal.astype(np.int64)
    return np.asarray(sum(wide[tap * dilation :][: shape.rows] @ taps[tap] for tap in range(TAPS)))


def of_groups(columns: int, group: list[int]) -> Bytes:
    """A matrix each of whose groups has these weights: two of every quad."""
    quads = np.repeat(np.array(group).reshape(GROUP_QUADS, 1, 2), 2, 1).reshape(-1)
    return np.tile(quads, TAPS * CHANNELS // len(quads))[:, None].repeat(columns, 1).astype(np.int8)


EXTREMES = {
    "127": [127, 1, 0, 0, 0, 0, 0, 0],
    "-128": [0, 0, 0, 0, 0, 0, 0, -128],
    "all alike": [GROUP_LIMIT // 8] * 8,
    "all negative": [-GROUP_LIMIT // 8] * 8,
    "two of 64": [64, 64, 0, 0, 0, 0, 0, 0],
    "63 and -64": [63, -64, 63, -64, 2, 0, 0, 0],
    "far apart": [64, 0, 0, 0, 0, 0, 0, 64],
    "both signs": [32, -32, 32, -32, 32, -32, 32, -32],
}


@needs_kernels
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("heard", ["all", "positive", "negative", "none"])
def test_sums_of_the_greatest_groups_are_exact(compiled: Kernels, name: str, heard: str) -> None:
    """The signal is greatest at all weights, or at those of one sign, where no sum is cancelled by others."""
    shape = compiled.shape
    matrix = of_groups(shape.columns, EXTREMES[name])
    chosen = {"all": True, "positive": matrix[:CHANNELS, 0] > 0, "negative": matrix[:CHANNELS, 0] < 0, "none": False}
    low, high = (-128, 127) if shape.signed else (0, 255)
    row = np.where(chosen[heard], high, low) * np.ones(CHANNELS)
    signal = np.tile(row, (shape.rows + TAPS, 1)).astype(np.int8 if shape.signed else np.uint8)
    assert np.array_equal(products(shape, signal, matrix, 1), numpys(shape, signal, matrix, 1))


@needs_kernels
@pytest.mark.parametrize("extreme", [127, -128])
def test_sums_of_the_greatest_bytes_are_exact_or_refused(compiled: Kernels, extreme: int) -> None:
    shape = compiled.shape
    signal = np.full((shape.rows + TAPS, CHANNELS), -128 if shape.signed else 255)
    signal = signal.astype(np.int8 if shape.signed else np.uint8)
    matrix = np.full((TAPS * CHANNELS, shape.columns), extreme, np.int8)
    if shape.widening:
        with pytest.raises(ValueError, match="16 bits"):
            tile.pack(matrix, shape)
        return
    assert np.array_equal(products(shape, signal, matrix, 1), numpys(shape, signal, matrix, 1))


@needs_kernels
def test_one_weight_too_many_is_refused(compiled: Kernels) -> None:
    if not compiled.shape.widening:
        pytest.skip("takes any weights")
    for group in ([64, 64, 0, 0, 0, 0, 0, 1], [-64, -64, 0, 0, 0, 0, 0, -1], [63] * 8):
        with pytest.raises(ValueError, match="16 bits"):
            tile.pack(of_groups(compiled.shape.columns, group), compiled.shape)


@needs_kernels
@pytest.mark.parametrize("dilation", [1, 3])
def test_sums_of_any_bytes_are_numpys(compiled: Kernels, dilation: int) -> None:
    shape, random = compiled.shape, np.random.default_rng(dilation)
    if shape.widening:
        matrix, _ = quantize_in_groups(random.standard_normal((TAPS * CHANNELS, shape.columns)), GROUP_QUADS)
    else:
        matrix = random.integers(-128, 128, (TAPS * CHANNELS, shape.columns)).astype(np.int8)
    signal = random.integers(0, 256, (shape.rows + TAPS * dilation, CHANNELS)).astype(np.uint8)
    signal[:, ::3] = 255
    signal = signal.view(np.int8) if shape.signed else signal
    assert np.array_equal(products(shape, signal, matrix, dilation), numpys(shape, signal, matrix, dilation))


WITHOUT_AVX512 = """
import sys
from pathlib import Path
from kokoro_server.engine.cpu import instructions
instructions.CPUINFO = Path(sys.argv[1])
from kokoro_server.engine.cpu.fused.kernels import compile_all
compiled = compile_all(instructions.instructions(), None)
assert instructions.instructions() == "avx2"
code = "".join(text for each in compiled[1:] for text in each.inspect_asm().values())
assert "vpmaddubsw" in code
assert "zmm" not in code and "ymm16" not in code and "{%k" not in code
"""


@pytest.mark.slow
@pytest.mark.skipif(Instructions.AVX2 not in RUNNABLE, reason="no AVX2")
def test_the_code_for_avx2_has_nothing_of_avx512(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("flags : avx avx2 fma\n")
    environment = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2"}
    subprocess.run(
        [sys.executable, "-c", WITHOUT_AVX512, str(tmp_path / "cpuinfo")],
        env=os.environ | environment, cwd=REPOSITORY, check=True, timeout=300,
    )  # fmt: skip
