"""What the nodes of the domain `kokoro` become, in operators that onnxruntime has.

Signals are (1, time, channels). In int8 a convolution of the decoder is: round to 8 bits with the range of this signal,
gather the taps side by side, one product of bytes. Its weights are signed where that is exact, else unsigned like its
input. In single precision it is onnxruntime's own, which wants (1, channels, time): signals between convolutions are
kept turned so.
"""

from __future__ import annotations

import itertools
import math
import platform
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
from onnx import helper

from kokoro_server.engine.cpu.graph import MICROSOFT, Array, Writer

EPSILON = 1e-5  # that of layers.EPSILON
ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "LeakyRelu"}
NARROW = 64  # input channels: fewer are not worth rounding

# Signed weights are a little faster, but some x86 processors would saturate sums of their products with bytes.
SIGNED = platform.machine() in {"aarch64", "arm64"}

# The last blocks answer both ends of an utterance with peaks, two to three times as high as all between. The ends are
# rounded by themselves: with them, all the rest would have as much fewer steps. What is between them is in parts, too:
# no moment is rounded more coarsely than those around it ask for.
PEAKED = tuple(f"decoder.generator.resblocks.{block}." for block in (3, 4, 5))
EDGE = 240  # steps: two frames
PARTS = 6  # with the ends

# Few of all products, but all that follows hangs on them: here the input counts with 16 bits.
FINE = (
    "predictor.N.", "decoder.asr_res.", "decoder.encode.", *(f"decoder.decode.{block}.conv1x1" for block in range(4)),
    "decoder.generator.ups.1",
)  # fmt: skip

BALANCE = 0.7  # between the rounding of signals (1) and that of weights (0)
FINE_BALANCE = 0.4  # where signals have 16 bits

# sin²(πr) / π for r from 0 to 1, as u² (a + b u + c u² ...) with u = r - r²: within 0.0005, and within 0.000013.
SINE_SQUARED = {"int8": (2.90347, 8.72482), "fp32": (3.156983, 5.998166, 6.979711)}


def lowered(
    model: onnx.ModelProto,
    constants: Mapping[str, Array],
    precision: str,
    levels: Mapping[str, Array] = MappingProxyType({}),
) -> onnx.ModelProto:
    """`levels` are the greatest magnitudes seen in each channel of a convolution's input, by the convolution's name."""
    writer = Writer(model.graph, constants)
    lower = Lowering(writer, precision, levels)
    for node in model.graph.node:
        lower.node(node)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return writer.model(opsets, {"precision": precision})


def real(*values: float) -> Array:
    return np.array(values, np.float32)


def whole(*values: int) -> Array:
    return np.array(values, np.int64)


class Kernel(NamedTuple):
    """The weights of a convolution, rounded; see `rounded`."""

    matrix: Array
    scales: Array
    zeros: Array | None
    bias: Array
    taps: int
    dilation: int


class Lowering:
    def __init__(self, writer: Writer, precision: str, levels: Mapping[str, Array]) -> None:
        self.w, self.precision, self._levels = writer, precision, levels
        self._times: dict[str, str] = {}  # the name of the number of steps that a signal has
        self._shares: dict[str, str] = {}
        self._places: dict[tuple[str, int, int], str] = {}
        self._statistics: dict[str, tuple[str, str]] = {}
        self._begins: dict[str, list[str]] = {}
        self._gains: dict[str, float] = {}  # what a snake still has to be multiplied with
        self._turned: dict[str, str] = {}  # (1, channels, time)

    def node(self, node: onnx.NodeProto) -> None:
        if not node.domain:
            self._kept(node)
            return
        more = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        getattr(self, node.op_type.lower())(list(node.input), node.output[0], **more)
        if node.op_type != "Conv":
            self._times[node.output[0]] = self._time(node.input[0])

    def _kept(self, node: onnx.NodeProto) -> None:
        """As it is; but what is made of turned signals alone is turned too."""
        if node.op_type in ELEMENTWISE and node.input[0] in self._times:
            self._times[node.output[0]] = self._times[node.input[0]]
        if node.op_type in ELEMENTWISE and node.input[0] in self._turned:
            turned = [self._turned.get(name, name if self._is_number(name) else "") for name in node.input]
            if all(turned):
                more = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
                self._give(self.w.op(node.op_type, turned, **more), node.output[0])
                return
        self.w.keep(node)

    def _is_number(self, name: str) -> bool:
        value = self.w.value(name)
        return value is not None and value.size == 1

    def _turn(self, x: str) -> str:
        if x not in self._turned:
            self._turned[x] = self.w.op("Transpose", [x], perm=[0, 2, 1])
        return self._turned[x]

    def _give(self, turned: str, output: str) -> None:
        """A result that is (1, channels, time); as `output` it is there for whoever wants it the other way."""
        self._turned[output] = turned
        self.w.op("Transpose", [turned], [output], perm=[0, 2, 1])

    def snake(self, inputs: list[str], output: str) -> None:
        # onnxruntime's Cos takes twenty times as long as a sum, and one thread, as does Round. Of 2z + 2 sin² z with
        # z = πt this is a 2π-th: t + sin²(πr) / π, where r is t less the whole number below it.
        op = self.w.op
        t = self._styled(inputs, 1 / math.pi)
        r = op("Sub", [t, op("Floor", [t])])
        u = op("Sub", [r, op("Mul", [r, r])])
        rising: Array | str = real(SINE_SQUARED[self.precision][-1])
        for factor in SINE_SQUARED[self.precision][-2::-1]:
            rising = op("Add", [op("Mul", [u, rising]), real(factor)])
        self._activated("Add", [t, op("Mul", [rising, op("Mul", [u, u])])], output)
        self._gains[output] = 2 * math.pi

    def leaky(self, inputs: list[str], output: str) -> None:
        self._activated("LeakyRelu", [self._styled(inputs, 1.0)], output, alpha=0.2)

    def _activated(self, kind: str, inputs: list[str], output: str, **more: Any) -> None:
        if self.precision == "fp32":
            self._give(self.w.op(kind, inputs, **more), output)
        else:
            self.w.op(kind, inputs, [output], **more)

    def conv(self, inputs: list[str], output: str, stride: int, padding: int, dilation: int, label: bytes) -> None:
        x, weight, bias = inputs
        w, b = self.w.value(weight), self.w.value(bias)
        if w is None or b is None:
            raise ValueError(f"{label.decode()}: its weights are not fixed")
        w = w * np.float32(self._gains.get(x, 1))
        if stride == 1:
            longer = 2 * padding - dilation * (w.shape[2] - 1)
            self._times[output] = self.w.op("Add", [self._time(x), whole(longer)]) if longer else self._time(x)
        if self.precision == "int8" and self._may_round(label.decode(), w):
            self._quantised(x, w, b, output, padding, dilation, label.decode())
        elif w.shape[2] == 1 and stride == 1 and x not in self._turned:
            self.w.op("Add", [self.w.op("MatMul", [x, w[:, :, 0].T]), b], [output])
        else:
            how: dict[str, Any] = {"strides": [stride], "pads": [padding, padding], "dilations": [dilation]}
            self._give(self.w.op("Conv", [self._turn(x), w, b], **how), output)

    @staticmethod
    def _may_round(label: str, w: Array) -> bool:
        """Not what decides durations and F0; and not the last convolution, whose result is an exponent and a phase."""
        wide = w.shape[1] >= NARROW and w.shape[0] >= NARROW
        return wide and label.startswith(("decoder.", "predictor.N.")) and not label.endswith("conv_post")

    @classmethod
    def roundable(cls, model: onnx.ModelProto, constants: Mapping[str, Array]) -> Iterator[tuple[str, str]]:
        """The names of the convolutions that int8 rounds, and of their inputs."""
        for node in model.graph.node:
            if node.domain and node.op_type == "Conv":
                label = next(each.s.decode() for each in node.attribute if each.name == "label")
                if cls._may_round(label, constants[node.input[1]]):
                    yield label, node.input[0]

    def _quantised(self, x: str, w: Array, b: Array, output: str, padding: int, dilation: int, label: str) -> None:
        op, time, taps = self.w.op, self._times[output], w.shape[2]
        if label in self._levels:
            level = balanced(self._levels[label], w, FINE_BALANCE if label.startswith(FINE) else BALANCE)
            x, w = op("Mul", [x, 1 / level]), w * level[:, None]
        kernel = Kernel(*rounded(w.transpose(2, 1, 0).reshape(w.shape[1] * taps, -1), SIGNED), b, taps, dilation)
        if not label.startswith(PEAKED):
            self._product(x, kernel, (padding, padding), time, label.startswith(FINE), [output])
            return
        op("Concat", [*self._parts(x, kernel, time, padding)], [output], axis=1)

    def _parts(self, x: str, kernel: Kernel, time: str, padding: int) -> Iterator[str]:
        """The convolution of both ends and of what is between them, part by part, each rounded by itself."""
        op, axis = self.w.op, whole(1)
        cuts: list[str | Array] = [whole(0), *self._cuts(time), whole(2**62)]
        for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
            first, last = number == 0, number == PARTS - 1
            start = begin if first else op("Sub", [begin, whole(padding)])
            stop = end if last else op("Add", [end, whole(padding)])
            part = op("Slice", [x, start, stop, axis])
            steps = op("Sub", [time if last else end, begin])
            pads = (padding if first else 0, padding if last else 0)
            yield self._product(part, kernel, pads, steps)

    def _product(
        self,
        x: str,
        kernel: Kernel,
        pads: tuple[int, int],
        steps: str,
        fine: bool = False,
        output: int | list[str] = 1,
    ) -> str:
        """The convolution in bytes, `steps` of it; if `fine`, what rounding leaves of the signal goes the same way."""
        op = self.w.op
        places = self._taps(steps, kernel.taps, kernel.dilation)

        def multiplied(rounding: tuple[str, str, str], more: list[Array], output: int | list[str]) -> str:
            y, scale, zero = rounding
            if kernel.taps > 1:
                y = op("Pad", [y, whole(0, pads[0], 0, 0, pads[1], 0), zero])
                y = op("Gather", [y, places], axis=1)  # (1, time, taps, channels)
                y = op("Reshape", [y, whole(1, -1, len(kernel.matrix))])
            zeros = "" if kernel.zeros is None else kernel.zeros
            inputs = [y, kernel.matrix, scale, kernel.scales, zero, zeros, *more]
            return cast(str, op("MatMulIntegerToFloat", inputs, output, MICROSOFT))

        rounding = op("DynamicQuantizeLinear", [x], 3)
        if not fine:
            return multiplied(rounding, [kernel.bias], output)
        rest = op("DynamicQuantizeLinear", [op("Sub", [x, op("DequantizeLinear", rounding)])], 3)
        return cast(str, op("Add", [multiplied(rounding, [kernel.bias], 1), multiplied(rest, [], 1)], output))

    def _cuts(self, time: str) -> list[str]:
        """Where the parts of an utterance begin, but for the first. The ends are a third of a very short one."""
        if time not in self._begins:
            op = self.w.op
            edge = op("Min", [op("Div", [time, whole(3)]), whole(EDGE)])
            length = op("Sub", [time, op("Mul", [edge, whole(2)])])
            shares = [op("Div", [op("Mul", [length, whole(part)]), whole(PARTS - 2)]) for part in range(PARTS - 1)]
            self._begins[time] = [op("Add", [edge, share]) for share in shares]
        return self._begins[time]

    def _taps(self, time: str, taps: int, dilation: int) -> str:
        """Which steps of the padded signal each step sees. (time, taps)"""
        key = (time, taps, dilation)
        if key not in self._places:
            op = self.w.op
            steps = op("Range", [np.array(0), op("Squeeze", [time]), np.array(1)])
            steps = op("Cast", [steps], to=onnx.TensorProto.INT32)
            offsets = np.arange(taps, dtype=np.int32) * np.int32(dilation)
            self._places[key] = op("Add", [op("Unsqueeze", [steps, whole(1)]), offsets])
        return self._places[key]

    def _styled(self, inputs: list[str], gain: float) -> str:
        """The signal normed, times scale plus shift, and all that times `gain`. In single precision, turned."""
        x, scale, shift = inputs
        op = self.w.op
        mean, inverse = self._measured(x)
        if self.precision == "fp32":
            x, scale, shift = self._turn(x), self._turn(scale), self._turn(shift)
        if gain != 1:
            scale, shift = op("Mul", [scale, real(gain)]), op("Mul", [shift, real(gain)])
        factor = op("Mul", [scale, inverse])
        offset = op("Sub", [shift, op("Mul", [mean, factor])])
        return cast(str, op("Add", [op("Mul", [x, factor]), offset]))

    def _measured(self, x: str) -> tuple[str, str]:
        """The mean of each channel over time, and one over its deviation.

        Of a signal that is not turned by products with a vector: onnxruntime's reductions are ten times slower there.
        """
        if x not in self._statistics:
            op = self.w.op
            if self.precision == "fp32":
                turned = self._turn(x)
                mean = op("ReduceMean", [turned], axes=[2])
                square = op("ReduceMean", [op("Mul", [turned, turned])], axes=[2])
            else:
                share = self._share(self._time(x))
                mean, square = op("MatMul", [share, x]), op("MatMul", [share, op("Mul", [x, x])])
            variance = op("Relu", [op("Sub", [square, op("Mul", [mean, mean])])])
            self._statistics[x] = mean, op("Reciprocal", [op("Sqrt", [op("Add", [variance, real(EPSILON)])])])
        return self._statistics[x]

    def _share(self, time: str) -> str:
        """(1, 1, time), each one over the number of steps."""
        if time not in self._shares:
            op = self.w.op
            one = helper.make_tensor("one", onnx.TensorProto.FLOAT, [1], [1.0])
            ones = op("ConstantOfShape", [op("Concat", [whole(1, 1), time], axis=0)], value=one)
            self._shares[time] = op("Div", [ones, op("Cast", [time], to=onnx.TensorProto.FLOAT)])
        return self._shares[time]

    def _time(self, x: str) -> str:
        if x not in self._times and x in self._turned:
            self._times[x] = self.w.op("Shape", [self._turned[x]], start=2, end=3)
        elif x not in self._times:
            self._times[x] = self.w.op("Shape", [x], start=1, end=2)
        return self._times[x]


def balanced(level: Array, w: Array, balance: float) -> Array:
    """What to divide each input channel by, and multiply its weights with, so that 8 bits serve both well."""
    weight = np.sqrt(np.square(w).mean((0, 2)))
    ratio = np.maximum(level, 1e-6) ** balance / np.maximum(weight, 1e-9) ** (1 - balance)
    return np.asarray(ratio / ratio.mean(), np.float32)


def rounded(matrix: Array, signed: bool) -> tuple[Array, Array, Array | None]:
    """A matrix in 8 bits, with a scale and, where it is not `signed`, a zero point for each column."""
    if signed:
        scales = np.maximum(np.abs(matrix).max(0) / 127, 1e-12).astype(np.float32)
        return np.round(matrix / scales).astype(np.int8), scales, None
    low, high = np.minimum(matrix.min(0), 0), np.maximum(matrix.max(0), 0)
    scales = np.maximum((high - low) / 255, 1e-12).astype(np.float32)
    zeros = np.round(-low / scales)
    return np.clip(np.round(matrix / scales) + zeros, 0, 255).astype(np.uint8), scales, zeros.astype(np.uint8)
