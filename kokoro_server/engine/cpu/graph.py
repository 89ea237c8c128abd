"""Taking ONNX graphs apart and putting them together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
MICROSOFT = "com.microsoft"  # onnxruntime's own operators


class Writer:
    """A graph in the making. Equal constants are kept once."""

    def __init__(self, like: onnx.GraphProto, constants: Mapping[str, Array]) -> None:
        self._like = like
        self._constants: dict[str, onnx.TensorProto] = {}
        self._names: dict[bytes, str] = {}
        self._renamed: dict[str, str] = {}
        self._taken = 0
        self.nodes: list[onnx.NodeProto] = []
        for name, array in constants.items():
            self._renamed[name] = self.constant(array)

    def constant(self, array: Array) -> str:
        array = np.asarray(array, order="C")  # ascontiguousarray would make a scalar a vector
        key = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).digest()
        if key not in self._names:
            self._names[key] = name = f"c{len(self._names)}"
            self._constants[name] = numpy_helper.from_array(array, name)
        return self._names[key]

    def value(self, name: str) -> Array | None:
        """The constant behind a name, if there is one."""
        found = self._constants.get(self._renamed.get(name, name))
        return None if found is None else numpy_helper.to_array(found)

    def op(
        self, kind: str, inputs: Sequence[str | Array], outputs: int | Sequence[str] = 1, domain: str = "", **more: Any
    ) -> Any:
        """Add a node; gives the name of its result, or a list of names."""
        given = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        names = [self._fresh() for _ in range(outputs)] if isinstance(outputs, int) else list(outputs)
        self.nodes.append(helper.make_node(kind, given, names, domain=domain, **more))
        return names[0] if len(names) == 1 else names

    def keep(self, node: onnx.NodeProto) -> None:
        self.nodes.append(node)

    def model(self, opsets: Iterable[onnx.OperatorSetIdProto], facts: Mapping[str, str]) -> onnx.ModelProto:
        """The whole, less what leads nowhere."""
        for node in self.nodes:
            node.input[:] = [self._renamed.get(name, name) for name in node.input]
        wanted = {output.name for output in self._like.output}
        nodes = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                nodes.append(node)
                wanted.update(node.input)
        constants = [tensor for name, tensor in self._constants.items() if name in wanted]
        graph = helper.make_graph(nodes[::-1], self._like.name, self._like.input, self._like.output, constants)
        model = helper.make_model(graph, opset_imports=list(opsets), ir_version=8)
        helper.set_model_props(model, dict(facts))
        return model

    def _fresh(self) -> str:
        self._taken += 1
        return f"v{self._taken}"


def folded(model: onnx.ModelProto, tensors: Mapping[str, Array]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model without all that `tensors`, its initializers by name, decide alone; and what that comes to."""
    graph = model.graph
    known = set(tensors)
    fixed, rest = [], []
    for node in graph.node:
        if node.domain == "" and all(name in known for name in node.input if name):
            fixed.append(node)
            known.update(node.output)
        else:
            rest.append(node)
    needed = sorted({name for node in rest for name in node.input if name in known})
    made = {name for node in fixed for name in node.output}
    results = [name for name in needed if name in made]
    values = {name: tensors[name] for name in needed if name in tensors}
    values |= zip(results, _run(fixed, results, tensors, model.opset_import), strict=True)
    lean = onnx.ModelProto()
    lean.CopyFrom(model)
    del lean.graph.initializer[:]
    del lean.graph.node[:]
    lean.graph.node.extend(rest)
    return lean, values


def _run(
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
    found: list[Array] = session.run(list(results), {name: tensors[name] for name in used})
    return found
