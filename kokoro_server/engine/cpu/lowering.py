"""Lowers the nodes of the domain `kokoro` to operators that onnxruntime has.

Signals are channels-last: (1, time, channels). In int8 a convolution of the decoder quantizes its input to 8 bits with
the range of this signal, gathers the taps side by side and is one product of bytes. Its weights have the `Form`
that makes it exact. In single precision it is onnxruntime's own Conv, which wants channels-first,
(1, channels, time): signals between convolutions stay channels-first there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from kokoro_server.config.settings import CpuPrecision
from kokoro_server.engine.cpu import quantization
from kokoro_server.engine.cpu.graph import MICROSOFT, GraphBuilder, attributes
from kokoro_server.engine.cpu.numerics import EPSILON, SINE_SQUARED, SNAKE_GAIN, SNAKE_TURNS, Array
from kokoro_server.engine.cpu.quantization import (
    EDGE_STEPS,
    MIN_CHANNELS,
    SEGMENTED,
    SEGMENTS,
    TWO_BYTE,
    Form,
    QuantizedWeights,
)

ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "LeakyRelu"}


def lower(
    model: onnx.ModelProto,
    constants: Mapping[str, Array],
    precision: CpuPrecision,
    channel_amax: Mapping[str, Array] = MappingProxyType({}),
    form: Form = Form.SIGNED,
) -> onnx.ModelProto:
    """`channel_amax` has the greatest magnitude of each input channel, by the convolution's name.

    `form` is that of int8 weights.
    """
    used = {name for node in model.graph.node for name in node.input}
    graph = GraphBuilder(model.graph, {name: value for name, value in constants.items() if name in used})
    lowering = Lowering(graph, precision, channel_amax, form)
    for node in model.graph.node:
        lowering.node(node)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return graph.model(opsets, {"precision": precision})


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def is_narrow(w: Array) -> bool:
    """Whether a convolution of these weights has few outputs for many inputs."""
    return bool(w.shape[0] < MIN_CHANNELS <= w.shape[1])


class Lowering:
    """Lowers node after node. The dictionaries keep, by the name of a tensor, the names of what was derived from it."""

    def __init__(
        self, graph: GraphBuilder, precision: CpuPrecision, channel_amax: Mapping[str, Array], form: Form
    ) -> None:
        self.graph, self.precision, self._channel_amax, self._form = graph, precision, channel_amax, form
        self._lengths: dict[str, str] = {}  # the number of steps of a signal
        self._averages: dict[str, str] = {}  # the vector that averages over that many steps
        self._indices: dict[tuple[str, int, int], str] = {}  # by length, taps, dilation
        self._statistics: dict[str, tuple[str, str]] = {}  # the mean of a signal, and one over its deviation
        self._starts: dict[str, list[str]] = {}  # by length
        self._gains: dict[str, float] = {}  # factors still missing from lowered signals
        self._channels_first: dict[str, str] = {}  # a signal as (1, channels, time)

    def node(self, node: onnx.NodeProto) -> None:
        if not node.domain:
            self._copy(node)
            return
        getattr(self, node.op_type.lower())(list(node.input), node.output[0], **attributes(node))
        if node.op_type != "Conv":
            self._lengths[node.output[0]] = self._length(node.input[0])

    def _copy(self, node: onnx.NodeProto) -> None:
        """Copy the node. An elementwise one whose inputs are all channels-first stays channels-first."""
        if node.op_type in ELEMENTWISE and node.input[0] in self._lengths:
            self._lengths[node.output[0]] = self._lengths[node.input[0]]
        if node.op_type in ELEMENTWISE and node.input[0] in self._channels_first:
            inputs = [self._channels_first.get(name, name if self._is_scalar(name) else "") for name in node.input]
            if all(inputs):
                self._define_channels_first(self.graph.op(node.op_type, inputs, **attributes(node)), node.output[0])
                return
        self.graph.nodes.append(node)

    def _is_scalar(self, name: str) -> bool:
        value = self.graph.constant_value(name)
        return value is not None and value.size == 1

    def _to_channels_first(self, x: str) -> str:
        if x not in self._channels_first:
            self._channels_first[x] = self.graph.op("Transpose", [x], perm=[0, 2, 1])
        return self._channels_first[x]

    def _define_channels_first(self, value: str, output: str) -> None:
        """Let `output` be `value`, which is channels-first. The name `output` itself stays channels-last."""
        self._channels_first[output] = value
        self.graph.op("Transpose", [value], [output], perm=[0, 2, 1])

    def snake(self, inputs: list[str], output: str) -> None:
        # Computes 1 / 2π of 2z + 2 sin² z with z = πt, which is t + sin²(πr) / π, where r is the fraction of t. sin² is
        # a polynomial: onnxruntime's Cos takes twenty times as long as a sum, on one thread, as does Round.
        op = self.graph.op
        t = self._adain(inputs, SNAKE_TURNS)
        r = op("Sub", [t, op("Floor", [t])])
        u = op("Sub", [r, op("Mul", [r, r])])
        polynomial: Array | str = f32(SINE_SQUARED[self.precision][-1])
        for coefficient in SINE_SQUARED[self.precision][-2::-1]:
            polynomial = op("Add", [op("Mul", [u, polynomial]), f32(coefficient)])
        self._activation("Add", [t, op("Mul", [polynomial, op("Mul", [u, u])])], output)
        self._gains[output] = SNAKE_GAIN

    def leaky(self, inputs: list[str], output: str) -> None:
        self._activation("LeakyRelu", [self._adain(inputs, 1.0)], output, alpha=0.2)

    def _activation(self, kind: str, inputs: list[str], output: str, **more: Any) -> None:
        if self.precision == "fp32":
            self._define_channels_first(self.graph.op(kind, inputs, **more), output)
        else:
            self.graph.op(kind, inputs, [output], **more)

    def conv(self, inputs: list[str], output: str, stride: int, padding: int, dilation: int, label: bytes) -> None:
        x, weight, bias = inputs
        w, b = self.graph.constant_value(weight), self.graph.constant_value(bias)
        if w is None or b is None:
            raise ValueError(f"{label.decode()}: its weights are not fixed")
        w = w * np.float32(self._gains.get(x, 1))
        if stride == 1:
            longer = 2 * padding - dilation * (w.shape[2] - 1)
            self._lengths[output] = self.graph.op("Add", [self._length(x), i64(longer)]) if longer else self._length(x)
        # The order in which products are added up is free where F0 is not at stake.
        free_order = self.precision == "int8" and label.startswith(b"decoder.")
        if self.precision == "int8" and quantization.is_quantizable(label.decode(), w):
            self._quantized_conv(x, w, b, output, padding, dilation, label.decode())
        elif w.shape[2] == 1 and stride == 1 and (free_order or x not in self._channels_first):
            self.graph.op("Add", [self.graph.op("MatMul", [x, w[:, :, 0].T]), b], [output])
        elif free_order and is_narrow(w) and (stride, dilation, 2 * padding) == (1, 1, w.shape[2] - 1):
            self._narrow_conv(x, w, b, output)
        else:
            geometry: dict[str, Any] = {"strides": [stride], "pads": [padding, padding], "dilations": [dilation]}
            y = self.graph.op("Conv", [self._to_channels_first(x), w, b], **geometry)
            self._define_channels_first(y, output)

    def _narrow_conv(self, x: str, w: Array, b: Array, output: str) -> None:
        """A convolution as long as its input: one product for all taps, whose columns are then shifted and added.

        onnxruntime's Conv takes twice as long, with the signal turned to channels-first and back.
        """
        op, (outputs, channels, taps) = self.graph.op, w.shape
        products = op("MatMul", [x, w.transpose(1, 2, 0).reshape(channels, taps * outputs)])
        of_taps = op("Split", [products, i64(*[outputs] * taps)], taps, axis=2)
        shifted = [op("Pad", [each, i64(0, taps - 1 - tap, 0, 0, tap, 0)]) for tap, each in enumerate(of_taps)]
        half = taps // 2
        whole = op("Slice", [op("Sum", shifted), i64(half), i64(-half), i64(1)])
        op("Add", [whole, b], [output])

    def _quantized_conv(self, x: str, w: Array, b: Array, output: str, padding: int, dilation: int, label: str) -> None:
        op, length, taps, two_byte = self.graph.op, self._lengths[output], w.shape[2], label.startswith(TWO_BYTE)
        if label in self._channel_amax:
            alpha = quantization.TWO_BYTE_ALPHA if two_byte else quantization.ALPHA
            scales = quantization.smoothquant_scales(self._channel_amax[label], w, alpha)
            x, w = op("Mul", [x, 1 / scales]), w * scales[:, None]
        matrix = quantization.tap_matrix(w)
        weights = QuantizedWeights(*quantization.quantize_weights(matrix, self._form), b, taps, dilation)
        if not label.startswith(SEGMENTED):
            self._int8_conv(x, weights, (padding, padding), length, two_byte, [output])
            return
        op("Concat", [*self._segments(x, weights, length, padding)], [output], axis=1)

    def _segments(self, x: str, weights: QuantizedWeights, length: str, padding: int) -> Iterator[str]:
        """The convolution of both ends and of the middle, segment by segment, each quantized by itself."""
        op, axis = self.graph.op, i64(1)
        cuts: list[str | Array] = [i64(0), *self._segment_starts(length), i64(2**62)]
        for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
            first, last = number == 0, number == SEGMENTS - 1
            start = begin if first else op("Sub", [begin, i64(padding)])
            stop = end if last else op("Add", [end, i64(padding)])
            segment = op("Slice", [x, start, stop, axis])
            steps = op("Sub", [length if last else end, begin])
            pads = (padding if first else 0, padding if last else 0)
            yield self._int8_conv(segment, weights, pads, steps)

    def _int8_conv(
        self,
        x: str,
        weights: QuantizedWeights,
        pads: tuple[int, int],
        steps: str,
        two_byte: bool = False,
        output: int | list[str] = 1,
    ) -> str:
        """`steps` steps of the convolution in bytes; if `two_byte`, the input's quantization error is convolved too."""
        op = self.graph.op
        indices = self._tap_indices(steps, weights.taps, weights.dilation)

        def product(quantized: tuple[str, str, str], bias: list[Array], output: int | list[str]) -> str:
            y, scale, zero_point = quantized
            if weights.taps > 1:
                y = op("Pad", [y, i64(0, pads[0], 0, 0, pads[1], 0), zero_point])
                y = op("Gather", [y, indices], axis=1)  # (1, time, taps, channels)
                y = op("Reshape", [y, i64(1, -1, len(weights.matrix))])
            zero_points = "" if weights.zero_points is None else weights.zero_points
            inputs = [y, weights.matrix, scale, weights.scales, zero_point, zero_points, *bias]
            return cast(str, op("MatMulIntegerToFloat", inputs, output, MICROSOFT))

        high = op("DynamicQuantizeLinear", [x], 3)
        if not two_byte:
            return product(high, [weights.bias], output)
        low = op("DynamicQuantizeLinear", [op("Sub", [x, op("DequantizeLinear", high)])], 3)
        return cast(str, op("Add", [product(high, [weights.bias], 1), product(low, [], 1)], output))

    def _segment_starts(self, length: str) -> list[str]:
        """Where all segments but the first begin. Each end of a very short utterance is a third."""
        if length not in self._starts:
            op = self.graph.op
            edge = op("Min", [op("Div", [length, i64(3)]), i64(EDGE_STEPS)])
            middle = op("Sub", [length, op("Mul", [edge, i64(2)])])
            shares = [op("Div", [op("Mul", [middle, i64(n)]), i64(SEGMENTS - 2)]) for n in range(SEGMENTS - 1)]
            self._starts[length] = [op("Add", [edge, share]) for share in shares]
        return self._starts[length]

    def _tap_indices(self, length: str, taps: int, dilation: int) -> str:
        """Which steps of the padded signal each output step reads. (time, taps)"""
        key = (length, taps, dilation)
        if key not in self._indices:
            op = self.graph.op
            steps = op("Range", [np.array(0), op("Squeeze", [length]), np.array(1)])
            steps = op("Cast", [steps], to=onnx.TensorProto.INT32)
            offsets = np.arange(taps, dtype=np.int32) * np.int32(dilation)
            self._indices[key] = op("Add", [op("Unsqueeze", [steps, i64(1)]), offsets])
        return self._indices[key]

    def _adain(self, inputs: list[str], gain: float) -> str:
        """The signal normed over time, times scale plus shift, and all that times `gain`. In fp32, channels-first."""
        x, scale, shift = inputs
        op = self.graph.op
        mean, inverse = self._instance_statistics(x)
        if self.precision == "fp32":
            x, scale, shift = map(self._to_channels_first, (x, scale, shift))
        if gain != 1:
            scale, shift = op("Mul", [scale, f32(gain)]), op("Mul", [shift, f32(gain)])
        factor = op("Mul", [scale, inverse])
        offset = op("Sub", [shift, op("Mul", [mean, factor])])
        return cast(str, op("Add", [op("Mul", [x, factor]), offset]))

    def _instance_statistics(self, x: str) -> tuple[str, str]:
        """The mean of each channel over time, and one over its deviation.

        A channels-last signal is averaged by a product with a vector: onnxruntime's reductions are ten times slower.
        """
        if x not in self._statistics:
            op = self.graph.op
            if self.precision == "fp32":
                signal = self._to_channels_first(x)
                mean = op("ReduceMean", [signal], axes=[2])
                square = op("ReduceMean", [op("Mul", [signal, signal])], axes=[2])
            else:
                average = self._averaging_vector(self._length(x))
                mean, square = op("MatMul", [average, x]), op("MatMul", [average, op("Mul", [x, x])])
            variance = op("Relu", [op("Sub", [square, op("Mul", [mean, mean])])])
            self._statistics[x] = mean, op("Reciprocal", [op("Sqrt", [op("Add", [variance, f32(EPSILON)])])])
        return self._statistics[x]

    def _averaging_vector(self, length: str) -> str:
        """(1, 1, time), each element one over the number of steps."""
        if length not in self._averages:
            op = self.graph.op
            one = helper.make_tensor("one", onnx.TensorProto.FLOAT, [1], [1.0])
            ones = op("ConstantOfShape", [op("Concat", [i64(1, 1), length], axis=0)], value=one)
            self._averages[length] = op("Div", [ones, op("Cast", [length], to=onnx.TensorProto.FLOAT)])
        return self._averages[length]

    def _length(self, x: str) -> str:
        if x not in self._lengths and x in self._channels_first:
            self._lengths[x] = self.graph.op("Shape", [self._channels_first[x]], start=2, end=3)
        elif x not in self._lengths:
            self._lengths[x] = self.graph.op("Shape", [x], start=1, end=2)
        return self._lengths[x]
