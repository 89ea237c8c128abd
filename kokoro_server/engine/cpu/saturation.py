"""Whether onnxruntime multiplies unsigned bytes by signed ones exactly on this machine, found out by doing it."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper

from kokoro_server.engine.cpu.sessions import session

DEPTHS = (64, 4096)  # of the product: kernels differ by size


@cache
def signed_products_are_exact() -> bool:
    """Whether no sum of products saturates, even of the greatest bytes there are.

    An x86 processor without VNNI adds pairs of products in 16 bits, which 255 * 127 * 2 exceeds.
    """
    return all(_exact(depth, weight) for depth in DEPTHS for weight in (127, -128))


def _exact(depth: int, weight: int) -> bool:
    matrix = np.full((depth, 64), weight, np.int8)
    node = helper.make_node("MatMulInteger", ["x", "matrix"], ["y"])
    graph = helper.make_graph(
        [node],
        "extremes",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["rows", depth])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    [sums] = session(model.SerializeToString(), 1).run(None, {"x": np.full((7, depth), 255, np.uint8)})
    return bool((sums == 255 * weight * depth).all())
