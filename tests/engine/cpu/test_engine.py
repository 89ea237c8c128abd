"""The engine on onnxruntime at tiny size: it does what the one on torch does."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from kokoro_server.engine.cpu import build, export
from kokoro_server.engine.cpu.engine import OnnxEngine
from kokoro_server.engine.model import reference
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE_DIM, Engine, MeasuresSpeed, Row
from kokoro_server.engine.speed import TimedPass
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.errors import AssetError
from tests import tiny_model
from tests.engine.kmodel import log_mel_distance
from tests.engine.rows import longest_row, random_row


@pytest.fixture(scope="module")
def engine() -> OnnxEngine:
    return tiny_model.onnx_engine()


@pytest.fixture(scope="module")
def torch_engine() -> TorchEngine:
    return tiny_model.torch_engine()


def test_durations_and_sound_are_those_of_torch(engine: OnnxEngine, torch_engine: TorchEngine) -> None:
    rows = [random_row(1, 5), random_row(2, 40), random_row(3, 1), random_row(4, 30, speed=1.7, pitch=5.0)]
    for row, ours, theirs in zip(rows, engine.synthesize(rows), torch_engine.synthesize(rows), strict=True):
        assert ours.durations.tolist() == theirs.durations.tolist()
        assert ours.audio.shape == theirs.audio.shape
        other = torch_engine.synthesize([replace(row, seed=row.seed + 1)])[0]
        assert log_mel_distance(theirs.audio, ours.audio) < log_mel_distance(theirs.audio, other.audio)
        assert 20 * np.log10(ours.audio.std() / theirs.audio.std()) == pytest.approx(0, abs=0.2)


def test_side_by_side_rows_are_what_they_are_alone_to_the_bit(engine: OnnxEngine) -> None:
    rows = [random_row(seed, 4 + 9 * seed) for seed in range(5)]
    alone = [engine.synthesize([row])[0] for row in rows]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda row: engine.synthesize([row])[0], rows))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.audio, other.audio)
        assert np.array_equal(one.durations, other.durations)


def test_the_longest_row_and_the_shortest(engine: OnnxEngine) -> None:
    long, short = engine.synthesize([longest_row(), random_row(1, 1, speed=4.0)])
    for result in (long, short):
        assert len(result.audio) == result.durations.sum() * SAMPLES_PER_FRAME
        assert np.isfinite(result.audio).all()
        assert result.audio.base is None


def test_a_row_with_nothing_to_say_is_silent(engine: OnnxEngine) -> None:
    empty, spoken = engine.synthesize([Row((), np.zeros(STYLE_DIM, np.float32)), random_row(1, 3)])
    assert empty.audio.shape == (0,)
    assert empty.durations.tolist() == [0, 0]
    assert len(spoken.audio)
    assert engine.synthesize([]) == []


def test_it_measures_its_speed(engine: OnnxEngine) -> None:
    as_protocol: Engine = engine
    as_protocol.warmup()
    assert as_protocol.device == "cpu"
    assert engine.precision == "fp32"
    assert engine.real_time_factor is None
    measuring: MeasuresSpeed = engine
    measuring.measure()
    assert engine.real_time_factor is not None
    assert engine.real_time_factor > 0


@pytest.mark.parametrize(("threads", "together", "calls"), [(2, 1.0, 1), (4, 1.0, 4), (4, 1.95, 1), (32, 1.0, 6)])
def test_it_takes_a_row_a_call_and_several_calls_where_that_is_faster(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch, threads: int, together: float, calls: int
) -> None:
    """A row alone takes a second, two side by side `together`. More than six would take too much memory."""
    monkeypatch.setattr(engine, "_threads", threads)
    monkeypatch.setattr(engine, "_side_by_side", 1)
    monkeypatch.setattr(engine, "real_time_factor", None)
    seconds = {1: 1.0, 2: together}
    monkeypatch.setattr(engine, "_timed", lambda rows: TimedPass(seconds[len(rows)], 2.0, len(rows) * SAMPLE_RATE))
    engine.measure()
    assert (engine.limits.max_rows, engine.limits.parallel_calls) == (1, calls)


def test_the_templates_in_the_package_are_what_the_code_gives() -> None:
    for name, fresh in export.templates(reference.blank()).items():
        ours = build.templates()[name]
        # The last bit of a cosine is not the same on all processors.
        for one, other in zip(take_constants(ours), take_constants(fresh), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
        assert ours == fresh, "run: python -m kokoro_server.engine.cpu.export"


def take_constants(model: onnx.ModelProto) -> list[np.ndarray]:
    """The constants in floating point, which the model is then without."""
    held = [
        attribute
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.t.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    ]
    values = [onnx.numpy_helper.to_array(attribute.t) for attribute in held]
    for attribute in held:
        attribute.t.raw_data = b""
    return values


def test_a_file_that_is_no_weights_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"nothing")
    with pytest.raises(AssetError, match="weights: not readable"):
        build.build(tmp_path / "weights", tmp_path, "fp32")


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    state = {name: tensor.numpy() for name, tensor in tiny_model.build().state_dict().items()}
    with pytest.raises(AssetError, match=r"shape .* expected"):
        build.assemble(build.templates(), state, tmp_path, "fp32")
    del state["bert_encoder.weight"]
    with pytest.raises(AssetError, match=r"bert_encoder\.weight: .* no such tensor"):
        build.assemble(tiny_model.templates(), state, tmp_path, "fp32")


def test_neither_the_engine_nor_the_build_imports_torch() -> None:
    code = (
        "import sys; from kokoro_server.engine.cpu import build, engine;"
        "assert not {'torch', 'kokoro', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux shows the files that are open")
def test_onnxruntime_collects_no_data_on_its_use(tmp_path: Path) -> None:
    code = (
        "from kokoro_server.engine.cpu import sessions;"
        "from onnx import TensorProto, helper;"
        "info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in 'ab'];"
        "graph = helper.make_graph([helper.make_node('Identity', ['a'], ['b'])], 'g', info[:1], info[1:]);"
        "model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8);"
        "sessions.session(model.SerializeToString(), 1)"
    )
    own = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = own | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=environment)
    assert not list(tmp_path.rglob("*onnxruntime*"))  # where it would keep them until they are sent
