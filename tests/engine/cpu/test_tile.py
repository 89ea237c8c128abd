"""Products of bytes are exact, also those of the greatest bytes that there may be."""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
import numpy as np
import pytest
from numba.core.cgutils import get_or_insert_function as insert_function
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


def two_rows_by_two_columns(module: ir.Module, kind: ir.FunctionType, name: str) -> ir.Function:
    """What ARM's SMMLA does, for processors that lack it."""
    if "smmla" not in name:
        return insert_function(module, kind, name)
    if found := module.globals.get("smmla"):
        return found
    function = ir.Function(module, kind, "smmla")
    function.linkage = "internal"
    sums, rows, columns = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    wide = ir.VectorType(tile.I32, 16)
    rows, columns = builder.sext(rows, wide), builder.sext(columns, wide)
    for row, column, channel in itertools.product(range(2), range(2), range(8)):
        one, other = (
            builder.extract_element(given, tile.I32(8 * number + channel))
            for given, number in ((rows, row), (columns, column))
        )
        at = tile.I32(2 * row + column)
        total = builder.add(builder.extract_element(sums, at), builder.mul(one, other))
        sums = builder.insert_element(sums, total, at)
    builder.ret(sums)
    return function


@pytest.mark.parametrize("dilation", [1, 3])
def test_sums_by_pairs_of_rows_and_columns_are_numpys(monkeypatch: pytest.MonkeyPatch, dilation: int) -> None:
    monkeypatch.setattr(tile.cgutils, "get_or_insert_function", two_rows_by_two_columns)
    shape, random = tile.SHAPES[Instructions.ARM_I8MM], np.random.default_rng(dilation)
    matrix = random.integers(-128, 128, (TAPS * CHANNELS, shape.columns)).astype(np.int8)
    signal = random.integers(-128, 128, (shape.rows + TAPS * dilation, CHANNELS)).astype(np.int8)
    assert np.array_equal(products(shape, signal, matrix, dilation), numpys(shape, signal, matrix, dilation))


INSTRUCTIONS = {
    Instructions.AMX_INT8: ("x86_64-linux", "+amx-int8", "tdpbusd", 4),
    Instructions.AVX512_VNNI: ("x86_64-linux", "+avx512vnni", "vpdpbusd", 24),
    Instructions.AVX_VNNI: ("x86_64-linux", "+avxvnni", "vpdpbusd", 12),
    Instructions.ARM_I8MM: ("aarch64-linux", "+i8mm", "smmla", 32),
    Instructions.ARM_DOTPROD: ("aarch64-linux", "+dotprod", "sdot", 64),
    Instructions.AVX512_BW: ("x86_64-linux", "+avx512bw", "vpmaddubsw", 64),
    Instructions.AVX2: ("x86_64-linux", "+avx2", "vpmaddubsw", 32),
}


@pytest.mark.parametrize("which", INSTRUCTIONS)
def test_a_turn_of_the_loop_is_so_many_instructions_and_keeps_its_sums_in_registers(which: Instructions) -> None:
    """On any machine: LLVM compiles for the others too."""
    triple, features, instruction, count = INSTRUCTIONS[which]
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [tile.I64] * 8), "product")
    builder = ir.IRBuilder(function.append_basic_block())
    tile.write(tile.SHAPES[which], builder, function.args)
    builder.ret_void()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(features=features, opt=3)
    code = machine.emit_assembly(llvm.parse_assembly(str(module)))
    assert len(re.findall(rf"\b{instruction}\b", code)) == count
    body = code[code.index(instruction) : code.rindex(instruction)]
    assert not re.search(r"\bstr\b|\bstp\b|, -?\d*\(%rsp\)", body)


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
