"""Building ONNX graphs, and folding their constants."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from kokoro_server.engine.cpu.numerics import Array

MICROSOFT = "com.microsoft"  # the domain of onnxruntime's own operators


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


class GraphBuilder:
    """Builds a graph that has the name, inputs and outputs of another. Equal constants are kept once."""

    def __init__(self, signature: onnx.GraphProto, constants: Mapping[str, Array]) -> None:
        self._signature = signature
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._names: dict[bytes, str] = {}  # of initializers, by the hash of their content
        self._aliases: dict[str, str] = {}  # from the names in `constants` to those of the initializers
        self._new_names = 0
        self.nodes: list[onnx.NodeProto] = []
        for name, array in constants.items():
            self._aliases[name] = self.constant(array)

    def constant(self, array: Array) -> str:
        """The name of an initializer with this value."""
        array = np.asarray(array, order="C")  # ascontiguousarray would make a scalar a vector
        key = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).digest()
        if key not in self._names:
            self._names[key] = name = f"c{len(self._names)}"
            self._initializers[name] = numpy_helper.from_array(array, name)
        return self._names[key]

    def constant_value(self, name: str) -> Array | None:
        """The value of a constant, or None if `name` is computed by a node."""
        tensor = self._initializers.get(self._aliases.get(name, name))
        return None if tensor is None else numpy_helper.to_array(tensor)

    def op(
        self, kind: str, inputs: Sequence[str | Array], outputs: int | Sequence[str] = 1, domain: str = "", **more: Any
    ) -> Any:
        """Add a node with the attributes `more`. Returns the name of its result, or a list of names."""
        input_names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        names = [self._new_name() for _ in range(outputs)] if isinstance(outputs, int) else list(outputs)
        self.nodes.append(helper.make_node(kind, input_names, names, domain=domain, **more))
        return names[0] if len(names) == 1 else names

    def model(self, opsets: Iterable[onnx.OperatorSetIdProto], metadata: Mapping[str, str]) -> onnx.ModelProto:
        """The finished model, without the nodes and constants that no output depends on."""
        for node in self.nodes:
            node.input[:] = [self._aliases.get(name, name) for name in node.input]
        needed = {output.name for output in self._signature.output}
        nodes = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                nodes.append(node)
                needed.update(node.input)
        constants = [tensor for name, tensor in self._initializers.items() if name in needed]
        like = self._signature
        graph = helper.make_graph(nodes[::-1], like.name, like.input, like.output, constants)
        model = helper.make_model(graph, opset_imports=list(opsets), ir_version=8)
        helper.set_model_props(model, dict(metadata))
        return model

    def _new_name(self) -> str:
        self._new_names += 1
        return f"v{self._new_names}"


def fold_constants(model: onnx.ModelProto, tensors: Mapping[str, Array]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model without the nodes that depend only on its initializers `tensors`, and the constants that it needs."""
    known = set(tensors)
    constant_nodes, rest = [], []
    for node in model.graph.node:
        if node.domain == "" and all(name in known for name in node.input if name):
            constant_nodes.append(node)
            known.update(node.output)
        else:
            rest.append(node)
    needed = sorted({name for node in rest for name in node.input if name in known})
    computed = {name for node in constant_nodes for name in node.output}
    results = [name for name in needed if name in computed]
    constants = {name: tensors[name] for name in needed if name in tensors}
    constants |= zip(results, _evaluate(constant_nodes, results, tensors, model.opset_import), strict=True)
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    del folded.graph.initializer[:]
    del folded.graph.node[:]
    folded.graph.node.extend(rest)
    return folded, constants


def _evaluate(
    nodes: Sequence[onnx.NodeProto],
    results: Sequence[str],
    tensors: Mapping[str, Array],
    opsets: Iterable[onnx.OperatorSetIdProto],
) -> list[Array]:
    used = sorted({name for node in nodes for name in node.input if name in tensors})
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(tensors[name].dtype), tensors[name].shape)
        for name in used
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph(list(nodes), "fixed", inputs, outputs)
    model = helper.make_model(graph, opset_imports=list(opsets), ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values: list[Array] = session.run(list(results), {name: tensors[name] for name in used})
    return values
