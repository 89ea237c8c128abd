from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors import safe_open

from kokoro_server.assets import convert, onnx_reader
from kokoro_server.assets.catalog import VOICE_BYTES
from kokoro_server.assets.library import Assets
from kokoro_server.engine import vocab
from kokoro_server.engine.model import reference
from kokoro_server.errors import AssetError

HIDDEN, WIDTH, STEPS = 3, 4, 5
RANDOM = np.random.default_rng(0)


def noise(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def save(path: Path, nodes: list[onnx.NodeProto], **tensors: np.ndarray) -> Path:
    """A graph with these nodes; a double underscore in a tensor's name stands for a dot."""
    initializers = [numpy_helper.from_array(array, name.replace("__", ".")) for name, array in tensors.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def kmodel() -> Any:
    """KModel of the real shape in miniature, random weights."""
    small = {
        "plbert": {"hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16},
        "istftnet": {**vocab.config()["istftnet"], "upsample_initial_channel": 32},
        "hidden_dim": 24,
        "style_dim": 8,
        "n_layer": 1,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = reference.blank({**vocab.config(), **small})
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not any(pattern.search(name) for pattern, _ in convert.FILL_VALUES):
                parameter.copy_(torch.randn(parameter.shape))
    return model


def shapes_of(model: Any) -> convert.TensorShapes:
    return {key: tuple(value.shape) for key, value in model.state_dict().items()}


def checkpoint_of(model: Any) -> dict[str, dict[str, torch.Tensor]]:
    """What the official file holds: submodules saved in DataParallel, no affine part in AdaIN, one unused tensor."""
    parts: dict[str, dict[str, torch.Tensor]] = {"bert": {"module.embeddings.position_ids": torch.arange(16)}}
    for key, value in model.state_dict().items():
        part, _, name = key.partition(".")
        if not any(pattern.search(key) for pattern, _ in convert.FILL_VALUES):
            parts.setdefault(part, {})[f"module.{name}"] = value
    return parts


def test_the_official_checkpoint_becomes_a_complete_state(kmodel: Any, tmp_path: Path) -> None:
    torch.save(checkpoint_of(kmodel), tmp_path / "kokoro.pth")

    state = convert.from_checkpoint(tmp_path / "kokoro.pth", shapes_of(kmodel))

    kmodel.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()}, strict=True)
    norm = next(key for key in state if key.endswith("norm1.norm.weight"))
    assert (state[norm] == 1).all()
    kept = "predictor.lstm.weight_ih_l0"
    np.testing.assert_array_equal(state[kept], kmodel.state_dict()[kept].numpy())


def test_a_file_of_other_things_is_no_checkpoint(kmodel: Any, tmp_path: Path) -> None:
    torch.save([torch.zeros(3)], tmp_path / "kokoro.pth")

    with pytest.raises(AssetError, match=r"kokoro\.pth: not a checkpoint"):
        convert.from_checkpoint(tmp_path / "kokoro.pth", shapes_of(kmodel))


def test_a_checkpoint_without_a_parameter_is_refused(kmodel: Any, tmp_path: Path) -> None:
    checkpoint = checkpoint_of(kmodel)
    del checkpoint["predictor"]["module.lstm.weight_ih_l0"]
    torch.save(checkpoint, tmp_path / "kokoro.pth")

    with pytest.raises(AssetError, match=r"predictor\.lstm\.weight_ih_l0"):
        convert.from_checkpoint(tmp_path / "kokoro.pth", shapes_of(kmodel))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all", b"PK\x03\x04 nor a zip"])
def test_a_file_that_is_no_checkpoint_is_refused(kmodel: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kokoro.pth").write_bytes(content)

    with pytest.raises(AssetError, match=r"kokoro\.pth: not a torch file"):
        convert.from_checkpoint(tmp_path / "kokoro.pth", shapes_of(kmodel))


def test_a_wrong_shape_and_a_wrong_value_are_refused() -> None:
    shapes = {"decoder.bias": (3,)}

    with pytest.raises(AssetError, match="shape"):
        convert.to_state({"decoder.bias": np.zeros(4, np.float32)}, shapes)
    with pytest.raises(AssetError, match="not finite"):
        convert.to_state({"decoder.bias": np.full(3, np.nan, np.float32)}, shapes)


def test_the_shapes_are_those_of_the_model() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = reference.blank()
    assert all(value.dtype == torch.float32 for value in model.state_dict().values())
    assert dict(convert.state_shapes()) == shapes_of(model)


def test_an_onnx_lstm_computes_the_same_in_torch(tmp_path: Path) -> None:
    weights, recurrent = noise(2, 4 * HIDDEN, WIDTH), noise(2, 4 * HIDDEN, HIDDEN)
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b"], ["y"], "/encoder/lstm/LSTM", hidden_size=HIDDEN, direction="bidirectional"
    )
    path = save(tmp_path / "lstm.onnx", [node], w=weights, r=recurrent, b=noise(2, 8 * HIDDEN))
    x = noise(STEPS, 1, WIDTH)
    expected = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x})[0]  # (steps, directions, rows, hidden)

    lstm = torch.nn.LSTM(WIDTH, HIDDEN, bidirectional=True)
    state = {name.removeprefix("lstm."): torch.from_numpy(a) for name, a in onnx_reader.read(path).items()}
    lstm.load_state_dict(state, strict=True)
    with torch.no_grad():
        got = lstm(torch.from_numpy(x))[0].numpy()

    np.testing.assert_allclose(got, expected.transpose(0, 2, 1, 3).reshape(STEPS, 1, 2 * HIDDEN), atol=1e-5)


def test_an_onnx_matrix_becomes_a_linear_weight(tmp_path: Path) -> None:
    matrix, bias = noise(WIDTH, HIDDEN), noise(HIDDEN)
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::MatMul_1"], ["product"], "/encoder/shared/linear/MatMul"),
        helper.make_node("Add", ["product", "encoder.shared.linear.bias"], ["y"], "/encoder/shared/linear/Add"),
    ]
    path = save(tmp_path / "linear.onnx", nodes, **{"onnx::MatMul_1": matrix, "encoder.shared.linear.bias": bias})

    parameters = onnx_reader.read(path)

    assert parameters.keys() == {"predictor.shared.linear.weight", "predictor.shared.linear.bias"}
    np.testing.assert_array_equal(parameters["predictor.shared.linear.weight"], matrix.T)
    np.testing.assert_array_equal(parameters["predictor.shared.linear.bias"], bias)


def test_int8_weights_are_dequantized_with_their_own_scale(tmp_path: Path) -> None:
    stored = RANDOM.integers(0, 255, size=(6, 2, 3)).astype(np.uint8)
    node = helper.make_node(
        "ConvInteger",
        ["x", "w_quantized", "x_zero_point", "shared_zero_point"],
        ["y"],
        "/decoder/decoder/encode/conv1/Conv_quant",
    )
    path = save(
        tmp_path / "int8.onnx",
        [node],
        w_quantized=stored,
        w_scale=np.float32(0.5),
        x_zero_point=np.uint8(0),
        shared_zero_point=np.uint8(100),
    )

    weight = onnx_reader.read(path)["decoder.encode.conv1.weight"]

    np.testing.assert_array_equal(weight, (stored.astype(np.float32) - 100) * 0.5)


def test_a_weight_that_no_module_takes_is_an_error(tmp_path: Path) -> None:
    node = helper.make_node("Mul", ["x", "onnx::Mul_1"], ["y"], "/encoder/strange/Mul")
    path = save(tmp_path / "strange.onnx", [node], **{"onnx::Mul_1": noise(10, 10)})

    with pytest.raises(AssetError, match="onnx::Mul_1"):
        onnx_reader.read(path)


def test_weight_norm_keeps_the_weight_and_survives_rows_of_zeros() -> None:
    weight = noise(4, 3, 2)
    weight[2] = 0

    magnitude, direction = convert.unfuse_weight_norm(weight)

    refolded = torch._weight_norm(torch.from_numpy(direction), torch.from_numpy(magnitude), 0).numpy()
    np.testing.assert_allclose(refolded, weight, rtol=1e-6)


def test_a_voice_tensor_becomes_its_raw_bytes(tmp_path: Path) -> None:
    voice = noise(510, 1, 256)
    torch.save(torch.from_numpy(voice), tmp_path / "af_test.pt")

    content = convert.voice_bytes(tmp_path / "af_test.pt")

    assert len(content) == VOICE_BYTES
    assert content == voice.astype("<f4").tobytes()


@pytest.mark.real
def test_the_real_weights_load_strictly_and_are_finite(assets: Assets) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = reference.load(assets.weights)

    state = model.state_dict()
    assert len(state) == 688
    for module in model.modules():
        if hasattr(module, "weight_g"):
            assert torch.isfinite(torch._weight_norm(module.weight_v, module.weight_g, 0)).all()
    with safe_open(assets.weights, "pt") as file:
        metadata = file.metadata()
    assert metadata["precision"] == assets.precision
    assert len(metadata["origin"]) == 64


@pytest.mark.real
def test_the_real_voices_have_the_right_shape(assets: Assets) -> None:
    voices = {path.stem: np.fromfile(path, "<f4") for path in assets.voices.glob("*.bin")}

    assert len(voices) == 54
    assert all(voice.size == 510 * 256 and np.isfinite(voice).all() for voice in voices.values())
