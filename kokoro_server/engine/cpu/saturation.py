"""Tries out which weights onnxruntime multiplies with unsigned bytes exactly on this machine."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper

from kokoro_server.engine.cpu.numerics import Array
from kokoro_server.engine.cpu.quantization import GROUP_LIMIT, Form
from kokoro_server.engine.cpu.sessions import session

DEPTHS = (64, 4096)  # of the product: kernels differ by size
ROWS = (1, 7, 64)
COLUMNS = 64


@cache
def best_form() -> Form:
    """Signed weights are faster than unsigned ones, and the fewer limits they keep the more exact.

    An x86 processor without VNNI adds pairs of products in 16 bits, which 255 * 127 * 2 exceeds.
    """
    if signed_products_are_exact():
        return Form.SIGNED
    return Form.PAIRED if paired_products_are_exact() else Form.UNSIGNED


@cache
def signed_products_are_exact() -> bool:
    """Whether no sum of products saturates, even with the greatest bytes."""
    return all(_exact(np.full((depth, COLUMNS), weight, np.int8)) for depth in DEPTHS for weight in (127, -128))


@cache
def paired_products_are_exact() -> bool:
    """Whether no sum saturates if the pairs of weights in each column keep to GROUP_LIMIT."""
    return all(_exact(_pairs(depth) * sign) for depth in DEPTHS for sign in (1, -1))


def _pairs(depth: int) -> Array:
    """Weights of one sign whose pairs reach GROUP_LIMIT. Paired otherwise they would saturate."""
    first = np.random.default_rng(0).integers(1, GROUP_LIMIT, (depth // 2, COLUMNS))
    return np.stack([first, GROUP_LIMIT - first], 1).reshape(depth, COLUMNS).astype(np.int8)


def _exact(matrix: Array) -> bool:
    depth = len(matrix)
    node = helper.make_node("MatMulInteger", ["x", "matrix"], ["y"])
    graph = helper.make_graph(
        [node],
        "extremes",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["rows", depth])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    product, wanted = session(model.SerializeToString(), 1), 255 * matrix.sum(0, dtype=np.int64)
    results = [product.run(None, {"x": np.full((rows, depth), 255, np.uint8)})[0] for rows in ROWS]
    return all(bool((sums == wanted).all()) for sums in results)
