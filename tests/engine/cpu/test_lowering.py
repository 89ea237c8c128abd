"""Convolutions of the int8 graphs that are not quantized are what numpy says."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from kokoro_server.engine.cpu.lowering import lower
from kokoro_server.engine.cpu.sessions import session


@pytest.mark.parametrize(("channels", "outputs", "taps", "padding"), [(64, 22, 7, 3), (64, 5, 3, 1), (22, 128, 1, 0)])
@pytest.mark.parametrize("steps", [1, 2, 500])
def test_a_narrow_convolution_is_its_sum_over_taps(
    channels: int, outputs: int, taps: int, padding: int, steps: int
) -> None:
    random = np.random.default_rng(steps)
    x = random.standard_normal((1, steps, channels), np.float32)
    w, b = random.standard_normal((outputs, channels, taps), np.float32), random.standard_normal(outputs, np.float32)
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], domain="kokoro",
        stride=1, padding=padding, dilation=1, label="decoder.generator.conv_post",
    )  # fmt: skip
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, "steps", channels])]
    model = helper.make_model(helper.make_graph([node], "one", given, [onnx.ValueInfoProto(name="y")]))
    lowered = lower(model, {"w": w, "b": b}, "int8")
    assert not {"Conv", "Transpose"} & {each.op_type for each in lowered.graph.node}
    [y] = session(lowered.SerializeToString(), 1).run(None, {"x": x})
    padded = np.pad(x[0], ((padding, padding), (0, 0))).astype(np.float64)
    longer = steps + 2 * padding - taps + 1
    wanted = sum(padded[tap:][:longer] @ w[:, :, tap].T for tap in range(taps)) + b
    assert y.shape == (1, longer, outputs)
    assert y[0] == pytest.approx(wanted, abs=1e-3)
