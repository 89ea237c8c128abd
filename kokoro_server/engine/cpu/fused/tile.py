"""The product of bytes, a tile at a time: LLVM code for each class of processors, called from numba's code.

    out[row, column] = the sum of a[row * stride + tap * dilated + channel] * weights[tap, channel, column]

Taps are a loop over shifted rows, so nothing is gathered. A tile's sums stay in registers until all is added.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from kokoro_server.engine.cpu.instructions import Instructions
from kokoro_server.engine.cpu.quantization import GROUP_LIMIT, GROUP_QUADS, group_sums

I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)

MATRIX_ROWS, MATRIX_BYTES = 16, 64  # of a register of AMX, and of each of its rows
# What LDTILECFG reads: its first form, and how many bytes and rows each of the eight registers has.
MATRICES = bytearray(struct.pack("<B15x8H16x8B8x", 1, *[MATRIX_BYTES] * 8, *[MATRIX_ROWS] * 8))


@dataclass(frozen=True, slots=True)
class TileShape:
    """The shape of a tile, and the instruction that fills it. One turn of the loop adds up `channels` channels."""

    intrinsic: str
    width: int  # 32-bit sums of a vector
    rows: int
    vectors: int  # of sums, for each row
    signed: bool  # whether the signal's bytes are signed too
    channels: int
    widening: str = ""  # adds two sums of 16 bits in 32 bits, where `intrinsic` adds two products in 16 bits
    # What a register of sums holds: columns of one row; two columns of two rows; or MATRIX_ROWS rows.
    layout: Literal["row", "pairs", "matrix"] = "row"

    @property
    def columns(self) -> int:
        return self.width * self.vectors


# Registers hold the sums, the weights and a row. ARM's instructions take four channels from any quarter of a register,
# or eight of each of two rows, so sixteen channels are loaded at once. Where sums begin in 16 bits, those of sixteen
# channels are added before they widen, row by row: the row's bytes are in registers, the weights in memory.
SHAPES = {
    Instructions.AMX_INT8: TileShape("tdpbusd", 16, 2 * MATRIX_ROWS, 2, False, MATRIX_BYTES, layout="matrix"),
    Instructions.AVX512_VNNI: TileShape("llvm.x86.avx512.vpdpbusd.512", 16, 6, 4, False, 4),
    Instructions.AVX_VNNI: TileShape("llvm.x86.avx512.vpdpbusd.256", 8, 6, 2, False, 4),
    Instructions.ARM_I8MM: TileShape("llvm.aarch64.neon.smmla.v4i32.v16i8", 4, 4, 4, True, 16, layout="pairs"),
    Instructions.ARM_DOTPROD: TileShape("llvm.aarch64.neon.sdot.v4i32.v16i8", 4, 4, 4, True, 16),
    Instructions.AVX512_BW: TileShape(
        "llvm.x86.avx512.pmaddubs.w.512", 16, 4, 4, False, 4 * GROUP_QUADS, "llvm.x86.avx512.pmaddw.d.512"
    ),
    Instructions.AVX2: TileShape(
        "llvm.x86.avx2.pmadd.ub.sw", 8, 4, 2, False, 4 * GROUP_QUADS, "llvm.x86.avx2.pmadd.wd"
    ),
}


def pack(matrix: NDArray[np.int8], shape: TileShape) -> NDArray[np.int8]:
    """The (taps * channels, columns) weights in the order in which a tile reads them, panel after panel.

    A panel has the columns of one tile. `columns` must be a multiple of that.
    """
    if shape.widening and (group_sums(matrix, GROUP_QUADS) > GROUP_LIMIT).any():
        raise ValueError("weights whose sums of products may leave 16 bits")
    depth, columns = matrix.shape
    panels = columns // shape.columns
    channels, across = (8, 2) if shape.layout == "pairs" else (4, shape.width)  # of what is multiplied at once
    vectors = shape.columns // across
    parts = matrix.reshape(depth // channels, channels, panels, vectors, across)
    packed = aligned((panels, depth // channels, vectors, across, channels), np.int8)
    packed[:] = parts.transpose(2, 0, 3, 4, 1)
    return packed


def aligned(shape: tuple[int, ...], dtype: Any, boundary: int = 64) -> NDArray[Any]:
    """An uninitialized array that begins at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + boundary, np.uint8)
    start = -memory.ctypes.data % boundary
    array: NDArray[Any] = memory[start : start + size].view(dtype).reshape(shape)
    return array


def number(shape: TileShape) -> int:
    """The number by which `multiply` knows a shape."""
    return list(SHAPES.values()).index(shape)


# numba finds cached code by the values in a kernel's closure. A function there never equals that of another process, so
# all shapes share this one and the closure holds a number.
@intrinsic(prefer_literal=True)
def multiply(
    _: Any, shape: Any, a: Any, stride: Any, dilated: Any, taps: Any, channels: Any, weights: Any, out: Any,
    out_stride: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Compute a tile of the shape with this number, a constant. Strides are in bytes."""
    chosen = list(SHAPES.values())[shape.literal_value]

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        write(chosen, builder, arguments[1:])
        return context.get_dummy_value()

    return types.void(shape, *[types.intp] * 8), generate


def write(shape: TileShape, builder: Any, arguments: Sequence[Any]) -> None:
    """Write the code of `multiply` for these LLVM values."""
    (_write_matrices if shape.layout == "matrix" else _write_vectors)(shape, builder, arguments)


class _Loop:
    """A counted loop whose variables are LLVM values, not memory. Its body is written between `__init__` and `end`."""

    def __init__(self, builder: Any, count: Any, initial: Sequence[Any]) -> None:
        self._builder, self._count = builder, count
        before = builder.block
        self._body = builder.append_basic_block("body")
        self._after = builder.append_basic_block("after")
        builder.branch(self._body)
        builder.position_at_end(self._body)
        self._counter = self._phi(I64(0), before)
        self.variables = [self._phi(value, before) for value in initial]

    def _phi(self, value: Any, before: Any) -> Any:
        phi = self._builder.phi(value.type)
        phi.add_incoming(value, before)
        return phi

    def end(self, following: Sequence[Any]) -> None:
        """Repeat with these values of the variables, or leave after the last turn."""
        builder = self._builder
        counted = builder.add(self._counter, I64(1))
        for phi, value in zip([self._counter, *self.variables], [counted, *following], strict=True):
            phi.add_incoming(value, builder.block)
        builder.cbranch(builder.icmp_signed("<", counted, self._count), self._body, self._after)
        builder.position_at_end(self._after)


def _write_vectors(shape: TileShape, builder: Any, arguments: Sequence[Any]) -> None:
    a, stride, dilated, taps, channels, weights, out, out_stride = arguments
    sums = ir.VectorType(I32, shape.width)
    row_offsets = [builder.mul(stride, I64(row)) for row in range(shape.rows)]
    zeros = [ir.Constant(sums, None)] * (shape.rows * shape.vectors)
    turns = builder.udiv(channels, I64(shape.channels))
    over_taps = _Loop(builder, taps, [a, weights, *zeros])
    row, panel, *begun = over_taps.variables
    over_channels = _Loop(builder, turns, [row, panel, *begun])
    at, weights_at, *so_far = over_channels.variables
    pairs = shape.layout == "pairs"
    add_products = _add_in_16_bits if shape.widening else _add_pairs if pairs else _add_products
    weights_after, added = add_products(builder, shape, at, row_offsets, weights_at, so_far)
    over_channels.end([builder.add(at, I64(shape.channels)), weights_after, *added])
    over_taps.end([builder.add(row, dilated), weights_after, *added])
    for number, value in enumerate(_rows_of_pairs(builder, shape, added) if pairs else added):
        row_number, vector = divmod(number, shape.vectors)
        place = builder.add(out, builder.mul(out_stride, I64(row_number)))
        builder.store(value, _pointer(builder, place, 4 * shape.width * vector, sums)).align = 4


def _add_products(
    builder: Any, shape: TileShape, at: Any, row_offsets: Sequence[Any], weights: Any, so_far: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """One turn: `shape.channels` channels of each row times their weights. Gives where the next weights are."""
    sums, bytes_ = ir.VectorType(I32, shape.width), ir.VectorType(I8, 4 * shape.width)
    multiply = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(sums, [sums, bytes_, bytes_]), shape.intrinsic
    )
    quads = shape.channels // 4
    loaded = ir.VectorType(I32, quads)
    rows = [_load(builder, builder.add(at, offset), 0, loaded if quads > 1 else I32, 1) for offset in row_offsets]
    added = list(so_far)
    for quad in range(quads):
        columns = []
        for vector in range(shape.vectors):
            offset = 4 * shape.width * (quad * shape.vectors + vector)
            columns.append(_load(builder, weights, offset, bytes_, 4 * shape.width))
        for row, signal in enumerate(rows):
            everywhere = _broadcast(builder, signal, quad, sums, bytes_)
            for vector, column in enumerate(columns):
                number = row * shape.vectors + vector
                operands = [column, everywhere] if shape.signed else [everywhere, column]
                added[number] = builder.call(multiply, [added[number], *operands])
    return builder.add(weights, I64(4 * shape.width * shape.vectors * quads)), added


def _add_pairs(
    builder: Any, shape: TileShape, at: Any, row_offsets: Sequence[Any], weights: Any, so_far: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """The same by an instruction that multiplies eight channels of two rows with those of two columns."""
    sums, bytes_, halves = ir.VectorType(I32, shape.width), ir.VectorType(I8, 16), ir.VectorType(I64, 2)
    multiply = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(sums, [sums, bytes_, bytes_]), shape.intrinsic
    )
    rows = [_load(builder, builder.add(at, offset), 0, halves, 1) for offset in row_offsets]
    column_pairs = shape.columns // 2
    added = list(so_far)
    for half in range(shape.channels // 8):
        signals = [
            builder.bitcast(_both(builder, *pair, half), bytes_) for pair in zip(rows[::2], rows[1::2], strict=True)
        ]
        for pair in range(column_pairs):
            column = _load(builder, weights, 16 * (half * column_pairs + pair), bytes_, 16)
            for number, signal in enumerate(signals):
                place = number * column_pairs + pair
                added[place] = builder.call(multiply, [added[place], signal, column])
    return builder.add(weights, I64(shape.columns * shape.channels)), added


def _rows_of_pairs(builder: Any, shape: TileShape, added: Sequence[Any]) -> list[Any]:
    """The sums row by row."""
    sums, halves = ir.VectorType(I32, shape.width), ir.VectorType(I64, 2)
    wide = [builder.bitcast(value, halves) for value in added]
    column_pairs = shape.columns // 2
    return [
        builder.bitcast(_both(builder, wide[place], wide[place + 1], row % 2), sums)
        for row in range(shape.rows)
        for place in range(row // 2 * column_pairs, (row // 2 + 1) * column_pairs, 2)
    ]


def _both(builder: Any, one: Any, other: Any, half: int) -> Any:
    """That half of both vectors."""
    mask = ir.Constant(ir.VectorType(I32, 2), [I32(half), I32(2 + half)])
    return builder.shuffle_vector(one, other, mask)


def _add_in_16_bits(
    builder: Any, shape: TileShape, at: Any, row_offsets: Sequence[Any], weights: Any, so_far: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """The same by an instruction that adds two products in 16 bits. The sums of all quads are added before they widen.

    No sum leaves 16 bits: `pack` refuses weights for which it could.
    """
    sums, bytes_ = ir.VectorType(I32, shape.width), ir.VectorType(I8, 4 * shape.width)
    pairs = ir.VectorType(I16, 2 * shape.width)
    module = builder.module
    multiply = cgutils.get_or_insert_function(module, ir.FunctionType(pairs, [bytes_, bytes_]), shape.intrinsic)
    widen = cgutils.get_or_insert_function(module, ir.FunctionType(sums, [pairs, pairs]), shape.widening)
    ones = ir.Constant(pairs, [I16(1)] * pairs.count)
    quads = range(shape.channels // 4)
    added = list(so_far)
    for row, offset in enumerate(row_offsets):
        place = builder.add(at, offset)
        signals = [_load(builder, place, 4 * quad, I32, 1) for quad in quads]
        everywhere = [_broadcast(builder, signal, 0, sums, bytes_) for signal in signals]
        weights_here = _another_name(builder, weights)
        for vector in range(shape.vectors):
            columns = [
                _load(builder, weights_here, 4 * shape.width * (quad * shape.vectors + vector), bytes_, 4 * shape.width)
                for quad in quads
            ]
            products = [builder.call(multiply, each) for each in zip(everywhere, columns, strict=True)]
            number = row * shape.vectors + vector
            widened = builder.call(widen, [functools.reduce(builder.add, products), ones])
            added[number] = builder.add(added[number], widened)
    return builder.add(weights, I64(shape.columns * shape.channels)), added


def _write_matrices(shape: TileShape, builder: Any, arguments: Sequence[Any]) -> None:
    """The same where registers are matrices: two of the signal times two of the weights are added to four of sums."""
    a, stride, dilated, taps, channels, weights, out, out_stride = arguments

    def call(name: str, *operands: Any) -> None:
        kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), operands)

    def address(begin: Any, offset: int) -> Any:
        return _pointer(builder, begin, offset, I8)

    rows, columns = range(shape.rows // MATRIX_ROWS), range(shape.vectors)
    numbers = map(I8, itertools.count())
    signal, panel = [next(numbers) for _ in rows], [next(numbers) for _ in columns]
    sums = [[next(numbers) for _ in columns] for _ in rows]
    shapes = cgutils.global_constant(builder, "matrices", ir.Constant(ir.ArrayType(I8, len(MATRICES)), MATRICES))
    call("ldtilecfg", builder.bitcast(shapes, ir.PointerType(I8)))
    for row, column in itertools.product(rows, columns):
        call("tilezero", sums[row][column])
    over_taps = _Loop(builder, taps, [a, weights])
    over_channels = _Loop(builder, builder.udiv(channels, I64(shape.channels)), over_taps.variables)
    at, weights_at = over_channels.variables
    for row in rows:
        place = builder.add(at, builder.mul(stride, I64(MATRIX_ROWS * row)))
        call("tileloadd64", signal[row], address(place, 0), stride)
    for column in columns:
        call("tileloadd64", panel[column], address(weights_at, MATRIX_BYTES * column), I64(4 * shape.columns))
    for row, column in itertools.product(rows, columns):
        call(shape.intrinsic, sums[row][column], signal[row], panel[column])
    weights_after = builder.add(weights_at, I64(shape.columns * shape.channels))
    over_channels.end([builder.add(at, I64(shape.channels)), weights_after])
    over_taps.end([builder.add(over_taps.variables[0], dilated), weights_after])
    for row, column in itertools.product(rows, columns):
        place = builder.add(out, builder.mul(out_stride, I64(MATRIX_ROWS * row)))
        call("tilestored64", sums[row][column], address(place, MATRIX_BYTES * column), out_stride)
    call("tilerelease")


def _another_name(builder: Any, address: Any) -> Any:
    """The same address, hidden from LLVM.

    LLVM would load the weights once for all rows, into registers that the sums need, and put the sums on the stack.
    """
    return builder.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [address], True)


def _broadcast(builder: Any, signal: Any, quad: int, sums: Any, bytes_: Any) -> Any:
    """Four bytes of the signal, once for every sum of a vector."""
    if isinstance(signal.type, ir.VectorType):
        vector = signal
    else:
        vector = builder.insert_element(ir.Constant(sums, ir.Undefined), signal, I32(0))
    mask = ir.Constant(ir.VectorType(I32, sums.count), [I32(quad)] * sums.count)
    return builder.bitcast(builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask), bytes_)


def _pointer(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    return builder.inttoptr(builder.add(address, I64(offset)), ir.PointerType(kind))


def _load(builder: Any, address: Any, offset: int, kind: Any, align: int) -> Any:
    value = builder.load(_pointer(builder, address, offset, kind))
    value.align = align
    return value
