"""Read the parameters of a Kokoro-82M v1.0 ONNX export under KModel's names.

The public exports (fp32, fp16, int8) are traces of one model and share their node and tensor names. Parameters that
the exporter left alone kept their name. Those that it folded into an operator (linear, convolution and LSTM weights)
get their name from the node that uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from kokoro_server.errors import AssetError

Tensor = NDArray[np.float32]
Tensors = dict[str, Tensor]

LINEAR = ("MatMul", "MatMulInteger")
CONVOLUTION = ("Conv", "ConvTranspose", "ConvInteger")
RECURRENT = ("LSTM", "DynamicQuantizeLSTM")
QUANTIZED = "_quantized"

NAMED = re.compile(r"(encoder|decoder)\.")
HELPER = re.compile(r"(_scale|_zero_point|_shape)$|\.stft\.")
# Constants of the graph that are as large as weights but are none. An unread initializer must be one of these.
CONSTANT = re.compile(
    r"/Reciprocal(_\d+)?_output_0$|\.stft\.|ConstantOfShape_output_0$|lstms\.1/Constant_[78]_output_0$"
)
WEIGHT_TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.FLOAT16)
LARGEST_SCALAR = 64  # values; smaller unread initializers are the graph's own arithmetic


class Graph:
    """An ONNX graph whose initializers are read as float32, dequantized along the graph's own edges."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes = list(graph.node)
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.read: set[str] = set()
        self._consumers: dict[str, list[onnx.NodeProto]] = {}
        self._producers = {output: node for node in self.nodes for output in node.output}
        for node in self.nodes:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)

    def initializer_behind(self, name: str) -> str:
        """`name`, or the tensor that is cast to it: the fp16 export keeps its sine source in float32."""
        producer = self._producers.get(name)
        return producer.input[0] if producer is not None and producer.op_type == "Cast" else name

    def value(self, name: str) -> Tensor:
        """The float32 value of a parameter, dequantized if it is stored quantized."""
        if name in self.tensors:
            return self._initializer(name)
        quantized = name + QUANTIZED
        scale, zero = self._initializer(name + "_scale"), self._initializer(self._zero_point(quantized))
        if self._consumers[quantized][0].op_type == "DynamicQuantizeLSTM":  # one scale for each direction
            scale, zero = scale.reshape(-1, 1, 1), zero.reshape(-1, 1, 1)
        return (self._initializer(quantized) - zero) * scale

    def unread(self) -> list[str]:
        """Initializers that look like weights and that were not read."""
        return [
            name
            for name, tensor in self.tensors.items()
            if name not in self.read
            and tensor.data_type in WEIGHT_TYPES
            and np.prod(tensor.dims) > LARGEST_SCALAR
            and not CONSTANT.search(name)
        ]

    def _initializer(self, name: str) -> Tensor:
        self.read.add(name)
        return numpy_helper.to_array(self.tensors[name]).astype(np.float32, copy=False)

    def _zero_point(self, quantized: str) -> str:
        """The name of a weight's zero point: equal ones were merged under one name, so the graph's edge is followed."""
        node = self._consumers[quantized][0]
        inputs = [str(name) for name in node.input]
        if node.op_type == "DynamicQuantizeLSTM":
            return inputs[9 if inputs[1] == quantized else 11]
        if node.op_type == "Gather":  # an embedding: Gather, then DequantizeLinear
            return str(self._consumers[node.output[0]][0].input[2])
        return inputs[3]


def read(path: Path, *, external: bool = True) -> Tensors:
    """Every parameter of the export in float32 under KModel's names; weight-normed ones as the effective `.weight`.

    `external`: tensors may be in files that the export names.
    """
    graph = Graph(onnx.load(path, load_external_data=external).graph)
    parameters: Tensors = {}
    for name, value in (*_folded_parameters(graph), *_named_parameters(graph)):
        if name in parameters and not np.array_equal(parameters[name], value):
            raise AssetError(f"{path}: two different values for {name}")
        parameters[name] = np.array(value, dtype=np.float32, order="C")
    if unread := graph.unread():
        raise AssetError(f"{path}: weights that no module takes: {', '.join(unread)}")
    return parameters


def _folded_parameters(graph: Graph) -> Iterator[tuple[str, Tensor]]:
    seen = set()  # ALBERT uses one layer twelve times: the first use gives the name
    for node in graph.nodes:
        if node.op_type in RECURRENT:
            yield from _lstm(graph, node)
        elif node.op_type in CONVOLUTION and "/istft/" not in node.name:
            yield _module_name(node) + ".weight", graph.value(_without_suffix(node.input[1]))
        elif node.op_type in LINEAR:
            weight = graph.initializer_behind(node.input[1])
            if weight in graph.tensors and weight not in seen:
                seen.add(weight)
                yield _module_name(node) + ".weight", graph.value(_without_suffix(weight)).T  # stored (in, out)
        elif node.op_type == "Gemm":  # transB: stored (out, in) already
            yield _module_name(node) + ".weight", graph.value(node.input[1])


def _named_parameters(graph: Graph) -> Iterator[tuple[str, Tensor]]:
    """Parameters that kept their name: biases, norms, embeddings, Snake's alphas."""
    taken = {_without_suffix(name) for name in graph.read}
    for name in dict.fromkeys(map(_without_suffix, graph.tensors)):
        if NAMED.match(name) and name not in taken and not HELPER.search(name):
            yield _kmodel_name(name), graph.value(name)


def _lstm(graph: Graph, node: onnx.NodeProto) -> Iterator[tuple[str, Tensor]]:
    module = _module_name(node)
    inputs, recurrent, biases = (graph.value(_without_suffix(node.input[index])) for index in (1, 2, 3))
    if node.op_type == "DynamicQuantizeLSTM":  # stored (directions, in, 4 × hidden)
        inputs, recurrent = inputs.transpose(0, 2, 1), recurrent.transpose(0, 2, 1)
    for direction, suffix in enumerate(("", "_reverse")):
        input_bias, recurrent_bias = np.split(biases[direction], 2)
        yield f"{module}.weight_ih_l0{suffix}", torch_gates(inputs[direction])
        yield f"{module}.weight_hh_l0{suffix}", torch_gates(recurrent[direction])
        yield f"{module}.bias_ih_l0{suffix}", torch_gates(input_bias)
        yield f"{module}.bias_hh_l0{suffix}", torch_gates(recurrent_bias)


def torch_gates(stacked: Tensor) -> Tensor:
    """ONNX stacks an LSTM's gates as input, output, forget, cell; torch as input, forget, cell, output."""
    input_gate, output_gate, forget_gate, cell_gate = np.split(stacked, 4, axis=0)
    return np.concatenate([input_gate, forget_gate, cell_gate, output_gate], axis=0)


def _without_suffix(name: str) -> str:
    return name.removesuffix(QUANTIZED)


def _module_name(node: onnx.NodeProto) -> str:
    """'/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant' is a node of 'text_encoder.cnn.0.0'."""
    parts = node.name.strip("/").split("/")[:-1]
    following = [*parts[1:], ""]
    kept = [part for part, after in zip(parts, following, strict=True) if not after.startswith(part + ".")]
    return _kmodel_name(".".join(kept))


def _kmodel_name(name: str) -> str:
    """The name in KModel: the exporter wrapped everything but the decoder in a module 'encoder'."""
    name = re.sub(r"^decoder\.decoder\.", "decoder.", name)
    name = name.removeprefix("encoder.")
    return re.sub(r"^(F0\.|N\.|F0_proj|N_proj|shared)", r"predictor.\1", name)
