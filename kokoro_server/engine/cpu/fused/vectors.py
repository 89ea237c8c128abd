"""Elementwise work on sixteen numbers at a time: LLVM code for any processor, called from numba's code.

numba's own vectoriser fails on a signal's minimum and maximum, and on bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kokoro_server.engine.cpu.numerics import SINE_SQUARED

I8, I32, I64, F32, F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
WIDTH = 16
LINE = 64  # bytes of the cache
FLOATS, DOUBLES = ir.VectorType(F32, WIDTH), ir.VectorType(F64, WIDTH)
INTS, BYTES = ir.VectorType(I32, WIDTH), ir.VectorType(I8, WIDTH)
SIGN = 0x80  # added to an unsigned byte, it gives a signed byte 128 less
LOW_STEPS, LOW_ZERO = 254, 127  # see `quantize_twice`
MAX_BYTE = 255.4  # before the fraction is cut off

Intrinsic = tuple[Any, Callable[..., Any]]


class Vectors:
    """Writes code for vectors. Addresses are integers; indices count elements."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def load(self, address: Any, index: Any, kind: Any = FLOATS) -> Any:
        value = self.builder.load(self._pointer(address, index, kind))
        value.align = self._size(kind)
        return value

    def store(self, value: Any, address: Any, index: Any) -> None:
        self.builder.store(value, self._pointer(address, index, value.type)).align = self._size(value.type)

    def _pointer(self, address: Any, index: Any, kind: Any) -> Any:
        offset = self.builder.mul(index, I64(self._size(kind)))
        return self.builder.inttoptr(self.builder.add(address, offset), ir.PointerType(kind))

    @staticmethod
    def _size(kind: Any) -> int:
        return {FLOATS: 4, INTS: 4, BYTES: 1, DOUBLES: 8}[kind]

    def constant(self, value: float) -> Any:
        return ir.Constant(FLOATS, [ir.Constant(F32, value)] * WIDTH)

    def splat(self, scalar: Any, kind: Any = FLOATS) -> Any:
        undefined = ir.Constant(kind, ir.Undefined)
        vector = self.builder.insert_element(undefined, scalar, I32(0))
        return self.builder.shuffle_vector(vector, undefined, ir.Constant(INTS, None))

    def function(self, name: str, *arguments: Any) -> Any:
        kind = ir.FunctionType(FLOATS, [FLOATS] * len(arguments))
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{WIDTH}f32")
        return self.builder.call(function, arguments)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.function("fma", x, y, z)

    def least(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", x, y), x, y)

    def greatest(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def variable(self, initial: Any) -> Any:
        place = cgutils.alloca_once(self.builder, initial.type)
        self.builder.store(initial, place)
        return place

    def each(self, count: Any, step: int = 1) -> Any:
        """A loop over 0, step, 2 * step ... below `count`. Its value is a pair that begins with the index."""
        return cgutils.for_range_slice(self.builder, I64(0), count, I64(step), intp=I64)

    def across(self, vector: Any, choose: Callable[[Any, Any], Any]) -> Any:
        """The number in a vector that `choose` prefers to every other one."""
        found = self.builder.extract_element(vector, I32(0))
        for lane in range(1, WIDTH):
            found = choose(self.builder.extract_element(vector, I32(lane)), found)
        return found


@intrinsic
def snake(_: Any, x: Any, rows: Any, channels: Any, factor: Any, offset: Any, shrink: Any, activated: Any) -> Intrinsic:
    """The activation of rows of `x`, normed by `factor` and `offset`. Returns its minimum and maximum, zero included.

    Computed as in `lowering.Lowering.snake`, then divided by SmoothQuant's scales (`shrink` has their reciprocals).
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        x, rows, channels, factor, offset, shrink, activated = arguments
        v = Vectors(builder)
        least, greatest = v.variable(ir.Constant(FLOATS, None)), v.variable(ir.Constant(FLOATS, None))
        low, high = map(v.constant, SINE_SQUARED["int8"])
        # In the order of memory: the signal is not in the cache, and only a sequential read is prefetched.
        with v.each(rows) as (row, _):
            begin = builder.mul(row, channels)
            with v.each(channels, WIDTH) as (channel, _):
                place = builder.add(begin, channel)
                t = v.fma(v.load(x, place), v.load(factor, channel), v.load(offset, channel))
                r = builder.fsub(t, v.function("floor", t))
                u = builder.fsub(r, builder.fmul(r, r))
                y = builder.fmul(v.fma(builder.fmul(u, u), v.fma(u, high, low), t), v.load(shrink, channel))
                v.store(y, activated, place)
                builder.store(v.least(y, builder.load(least)), least)
                builder.store(v.greatest(y, builder.load(greatest)), greatest)
        ends = v.across(builder.load(least), v.least), v.across(builder.load(greatest), v.greatest)
        return context.make_tuple(builder, signature.return_type, ends)

    return types.UniTuple(types.float32, 2)(*[types.intp] * 7), generate


@intrinsic
def quantize(_: Any, activated: Any, count: Any, quantized: Any, inverse: Any, zero: Any, sign: Any) -> Intrinsic:
    """Bytes of activated * inverse + zero: unsigned if `sign` is 0; with SIGN, signed and 128 less.

    `zero` includes the half that makes cutting off the fraction a rounding.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        activated, count, quantized, inverse, zero, sign = arguments
        v = Vectors(builder)
        inverse, zero, sign = v.splat(inverse), v.splat(zero), v.splat(builder.trunc(sign, I8), BYTES)
        with v.each(count, WIDTH) as (place, _):
            y = v.least(v.fma(v.load(activated, place), inverse, zero), v.constant(MAX_BYTE))
            whole = builder.trunc(builder.fptosi(y, INTS), BYTES)
            v.store(builder.xor(whole, sign), quantized, place)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3, types.float32, types.float32, types.intp), generate


@intrinsic
def shrink(_: Any, x: Any, rows: Any, channels: Any, factors: Any, shrunk: Any) -> Intrinsic:
    """Rows of `x`, each channel times its factor. Returns their minimum and maximum, zero included."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        x, rows, channels, factors, shrunk = arguments
        v = Vectors(builder)
        least, greatest = v.variable(ir.Constant(FLOATS, None)), v.variable(ir.Constant(FLOATS, None))
        with v.each(rows) as (row, _):
            begin = builder.mul(row, channels)
            with v.each(channels, WIDTH) as (channel, _):
                place = builder.add(begin, channel)
                y = builder.fmul(v.load(x, place), v.load(factors, channel))
                v.store(y, shrunk, place)
                builder.store(v.least(y, builder.load(least)), least)
                builder.store(v.greatest(y, builder.load(greatest)), greatest)
        ends = v.across(builder.load(least), v.least), v.across(builder.load(greatest), v.greatest)
        return context.make_tuple(builder, signature.return_type, ends)

    return types.UniTuple(types.float32, 2)(*[types.intp] * 5), generate


@intrinsic
def quantize_twice(_: Any, x: Any, count: Any, high: Any, low: Any, inverse: Any, zero: Any, sign: Any) -> Intrinsic:
    """Bytes as by `quantize` in `high`, and in `low` what they leave: LOW_STEPS steps of it are one of `high`.

    The zero of `low` is LOW_ZERO.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        x, count, high, low, inverse, zero, sign = arguments
        v = Vectors(builder)
        inverse, zero, sign = v.splat(inverse), v.splat(zero), v.splat(builder.trunc(sign, I8), BYTES)
        # What is left is between minus a half and a half, and another half makes cutting off the fraction a rounding.
        low_zero = v.constant(LOW_ZERO + 0.5 - 0.5 * LOW_STEPS)
        with v.each(count, WIDTH) as (place, _):
            y = v.least(v.fma(v.load(x, place), inverse, zero), v.constant(MAX_BYTE))
            whole = builder.fptosi(y, INTS)
            rest = builder.fsub(y, builder.sitofp(whole, FLOATS))
            parts = whole, builder.fptosi(v.fma(rest, v.constant(LOW_STEPS), low_zero), INTS)
            for part, bytes_ in zip(parts, (high, low), strict=True):
                v.store(builder.xor(builder.trunc(part, BYTES), sign), bytes_, place)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4, types.float32, types.float32, types.intp), generate


@intrinsic
def fill(_: Any, address: Any, count: Any, value: Any) -> Intrinsic:
    """Write `count` bytes of one value. `count` is a multiple of sixteen."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        address, count, value = arguments
        v = Vectors(builder)
        value = v.splat(builder.trunc(value, I8), BYTES)
        with v.each(count, WIDTH) as (place, _):
            v.store(value, address, place)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@intrinsic(prefer_literal=True)
def prefetch(_: Any, count: Any, address: Any, stride: Any, columns: Any, write: Any) -> Intrinsic:
    """Ask for `count` rows of floats, to be read or written soon. `count`, `columns` and `write` are constants."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        _, address, stride, *_ = arguments
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(I8), I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        for row in range(count.literal_value):
            begin = builder.add(address, builder.mul(stride, I64(4 * row)))
            for line in range(0, 4 * columns.literal_value, LINE):
                pointer = builder.inttoptr(builder.add(begin, I64(line)), ir.PointerType(I8))
                builder.call(function, [pointer, I32(write.literal_value), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(count, types.intp, types.intp, columns, write), generate


@intrinsic(prefer_literal=True)
def finish(
    _: Any, columns: Any, sums: Any, rows: Any, zero_point: Any, column_sums: Any, step: Any, scales: Any, bias: Any,
    base: Any, y: Any, stride: Any, totals: Any, squares: Any,
) -> Intrinsic:  # fmt: skip
    """y = (sums - zero_point * column_sums) * step * scales + bias + base. Adds to `totals` and `squares`.

    `sums` has `columns` columns, a constant; `base` and `y` have `stride`. The address of `base` is 0 where nothing is
    added.
    """
    places = range(0, columns.literal_value, WIDTH)

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        _, sums, rows, zero_point, column_sums, step, scales, bias, base, y, stride, totals, squares = arguments
        v = Vectors(builder)
        zero_points, steps = v.splat(builder.trunc(zero_point, I32), INTS), v.splat(step)
        corrections = [builder.mul(zero_points, v.load(column_sums, I64(at), INTS)) for at in places]
        factors = [builder.fmul(steps, v.load(scales, I64(at))) for at in places]
        shifts = [v.load(bias, I64(at)) for at in places]
        found = [[v.variable(ir.Constant(FLOATS, None)) for _ in places] for _ in range(2)]

        def each_row(with_base: bool) -> None:
            # In the order of memory: `base` is not in the cache.
            with v.each(rows) as (row, _):
                begin, place = builder.mul(row, I64(columns.literal_value)), builder.mul(row, stride)
                for at, correction, factor, shift, total, square in zip(
                    places, corrections, factors, shifts, *found, strict=True
                ):
                    exact = v.load(sums, builder.add(begin, I64(at)), INTS)
                    real = builder.sitofp(builder.sub(exact, correction), FLOATS)
                    here = builder.add(place, I64(at))
                    value = v.fma(real, factor, builder.fadd(shift, v.load(base, here)) if with_base else shift)
                    v.store(value, y, here)
                    builder.store(builder.fadd(builder.load(total), value), total)
                    builder.store(v.fma(value, value, builder.load(square)), square)

        with builder.if_else(builder.icmp_signed("!=", base, I64(0))) as (then, otherwise):
            with then:
                each_row(True)
            with otherwise:
                each_row(False)
        for sums_, over_time in zip(found, (totals, squares), strict=True):
            for at, sum_ in zip(places, sums_, strict=True):
                wide = builder.fpext(builder.load(sum_), DOUBLES)
                v.store(builder.fadd(v.load(over_time, I64(at), DOUBLES), wide), over_time, I64(at))
        return context.get_dummy_value()

    return types.void(columns, *[types.intp] * 4, types.float32, *[types.intp] * 7), generate
