"""Cuts the decode graph at the generator's two residual stages, so that kernels can run the stages.

    before    the decode graph's inputs      → styles; source0, source1; addend0
    stage0    source0, addend0, styles       → result0
    between   result0                        → addend1
    stage1    source1, addend1, styles       → result1
    after     result1                        → audio

A stage has four residual blocks: one on its source, and three in parallel on the sum of that result and the addend.
Their mean is activated. A block does three times: norm, snake, dilated convolution, norm, snake, convolution, and adds
its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from kokoro_server.engine.cpu import quantization
from kokoro_server.engine.cpu.fused.weights import BLOCKS, CONVOLUTIONS, UPSAMPLING, ConvolutionWeights
from kokoro_server.engine.cpu.graph import attributes
from kokoro_server.engine.cpu.numerics import SNAKE_GAIN, Array

GENERATOR = "decoder.generator."


class DecodeStages:
    """A decode graph and the constants that it needs besides its inputs."""

    def __init__(self, model: onnx.ModelProto, constants: Mapping[str, Array]) -> None:
        self._model, self._constants = model, constants
        self._made = {name: node for node in model.graph.node for name in node.output}
        self._users: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        convolutions = [node for node in model.graph.node if node.domain and node.op_type == "Conv"]
        self._convolutions = {attributes(node)["label"].decode(): node for node in convolutions}

    @property
    def divisible(self) -> bool:
        """Whether it has the two stages, with convolutions that int8 quantizes."""
        return all(
            label in self._convolutions and quantization.is_quantizable(label, self._weight(label))
            for label, _ in _labels()
        )

    def parts(self) -> dict[str, onnx.ModelProto]:
        """The graphs by name, still to be lowered."""
        names = {self._styles().input[0]: "styles"}
        widths = {"styles": sum(self._style_sizes())}
        for number in range(len(BLOCKS)):
            signals = dict(zip(("source", "addend", "result"), self._signals(number), strict=True))
            names |= {signal: f"{name}{number}" for name, signal in signals.items()}
            channels = self._weight(_label(number, 0, 0)).shape[1]
            widths |= {f"{name}{number}": channels for name in signals}
        graph = _renamed(self._model, names)
        return {
            "before": _cut(graph, [], ["styles", "source0", "source1", "addend0"], widths),
            "stage0": _cut(graph, ["source0", "addend0", "styles"], ["result0"], widths),
            "between": _cut(graph, ["result0"], ["addend1"], widths),
            "stage1": _cut(graph, ["source1", "addend1", "styles"], ["result1"], widths),
            "after": _cut(graph, ["result1"], [graph.graph.output[0].name], widths),
        }

    def slopes(self) -> Array:
        """The slope of the activation at the end of each stage."""
        ends = [self._made[self._signals(number)[2]] for number in range(len(BLOCKS))]
        return np.array([attributes(node)["alpha"] for node in ends], np.float32)

    def weights(self, channel_amax: Mapping[str, Array], in_groups: bool) -> dict[str, ConvolutionWeights]:
        """The weights of the stages' convolutions in signed bytes, as `lowering` quantizes them.

        `in_groups`: the kernels add products in 16 bits. That is too coarse for the upsampling between the stages.
        """
        found = {key: self._quantized(label, channel_amax, in_groups) for label, key in _labels()}
        return found if in_groups else found | {UPSAMPLING: self._upsampling(channel_amax)}

    def _upsampling(self, channel_amax: Mapping[str, Array]) -> ConvolutionWeights:
        label = GENERATOR + UPSAMPLING
        node, w = self._convolutions[label], self._weight(label)
        smooth = quantization.smoothquant_scales(channel_amax[label], w, quantization.TWO_BYTE_ALPHA)
        matrix = quantization.tap_matrix(w * smooth[:, None])
        matrix, scales, _ = quantization.quantize_weights(matrix, quantization.Form.SIGNED)
        given = attributes(node)
        geometry = np.array((w.shape[2], given["dilation"], given["padding"], 0, 0), np.int64)
        bias = self._constants[node.input[2]].astype(np.float32)
        return ConvolutionWeights(matrix, scales, bias, 1 / smooth, geometry)

    def _quantized(self, label: str, channel_amax: Mapping[str, Array], in_groups: bool) -> ConvolutionWeights:
        node = self._convolutions[label]
        w = self._weight(label) * np.float32(SNAKE_GAIN)
        shrink: Array = np.ones(w.shape[1], np.float32)
        if label in channel_amax:
            smooth = quantization.smoothquant_scales(channel_amax[label], w, quantization.ALPHA)
            shrink, w = 1 / smooth, w * smooth[:, None]
        matrix = quantization.tap_matrix(w)
        if in_groups:
            matrix, scales = quantization.quantize_in_groups(matrix, quantization.GROUP_QUADS)
        else:
            matrix, scales, _ = quantization.quantize_weights(matrix, quantization.Form.SIGNED)
        given, offsets, snake = attributes(node), self._offsets(), self._made[node.input[0]]
        geometry = w.shape[2], given["dilation"], given["padding"], offsets[snake.input[1]], offsets[snake.input[2]]
        return ConvolutionWeights(
            matrix, scales, self._constants[node.input[2]].astype(np.float32), shrink, np.array(geometry, np.int64)
        )

    def _weight(self, label: str) -> Array:
        return self._constants[self._convolutions[label].input[1]]

    def _signals(self, stage: int) -> tuple[str, str, str]:
        """The names of the stage's source, addend and result."""
        source = self._block_input(stage, 0)
        entry = self._made[self._block_input(stage, 1)]
        noise = self._convolutions[_label(stage, 0, -1)].output[0]
        [addend] = [name for name in entry.input if noise not in self._made[name].input]
        mean = self._users[self._convolutions[_label(stage, 1, -1)].output[0]][0]
        while mean.op_type != "LeakyRelu":
            mean = self._users[mean.output[0]][0]
        return source, addend, mean.output[0]

    def _block_input(self, stage: int, block: int) -> str:
        snake = self._made[self._convolutions[_label(stage, block, 0)].input[0]]
        return str(snake.input[0])

    def _styles(self) -> onnx.NodeProto:
        """The node that splits the styles of all norms."""
        snake = self._made[self._convolutions[_label(0, 0, 0)].input[0]]
        split: onnx.NodeProto = self._made[snake.input[1]]
        return split

    def _style_sizes(self) -> list[int]:
        return [int(size) for size in self._constants[self._styles().input[1]]]

    def _offsets(self) -> dict[str, int]:
        """Where each part of the styles begins."""
        sizes = self._style_sizes()
        return dict(zip(self._styles().output, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))


def _label(stage: int, block: int, convolution: int) -> str:
    return f"{GENERATOR}{BLOCKS[stage][block]}.{CONVOLUTIONS[convolution]}"


def _labels() -> Iterator[tuple[str, str]]:
    """All convolutions of the stages, with the names under which their weights are kept."""
    for blocks in BLOCKS:
        for block in blocks:
            for convolution in CONVOLUTIONS:
                yield f"{GENERATOR}{block}.{convolution}", f"{block}.{convolution}"


def _renamed(model: onnx.ModelProto, names: Mapping[str, str]) -> onnx.ModelProto:
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    for node in renamed.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return renamed


def _cut(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str], widths: Mapping[str, int]
) -> onnx.ModelProto:
    """The part that computes `outputs` from `inputs`, signals of the given widths, and from the graph's own inputs."""
    made = {name: node for node in model.graph.node for name in node.output}
    needed, wanted = set(), list(outputs)
    while wanted:
        name = wanted.pop()
        if name not in inputs and name in made and made[name].output[0] not in needed:
            needed.add(made[name].output[0])
            wanted.extend(made[name].input)
    nodes = [node for node in model.graph.node if node.output[0] in needed]
    used = {name for node in nodes for name in node.input}
    signals = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, f"steps_{name}", widths[name]])
        for name in inputs
    ]
    results = [next((known for known in model.graph.output if known.name == name), None) for name in outputs]
    graph = helper.make_graph(
        nodes,
        model.graph.name,
        [known for known in model.graph.input if known.name in used] + signals,
        [known or onnx.ValueInfoProto(name=name) for known, name in zip(results, outputs, strict=True)],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
