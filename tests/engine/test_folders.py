"""Loading models of MODELS_PATH: int8 for weights on which it was not measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from kokoro_server.assets.models import folder
from kokoro_server.assets.models.weights import ConvertedWeights
from kokoro_server.config.settings import Settings
from kokoro_server.engine import folders, vocab
from kokoro_server.engine.cpu import build, build_cache, fidelity
from kokoro_server.engine.protocol import STYLE_DIM
from kokoro_server.errors import AssetError
from kokoro_server.observability.conditions import Condition, Reason
from tests import tiny_model
from tests.assets.test_models import described

STYLES = list((0.15 * np.random.default_rng(0).standard_normal((3, STYLE_DIM))).astype(np.float32))


def graphs(folder: Path, **scaled: float) -> Path:
    """Of the tiny model, with some of its tensors changed."""
    folder.mkdir()
    state = load_file(tiny_model.weights())
    for name, factor in scaled.items():
        state = {key: value * np.float32(factor) if name in key else value for key, value in state.items()}
    build.assemble(tiny_model.templates(), state, folder, "fp32")
    return folder


def test_the_distance_of_two_builds(tmp_path: Path) -> None:
    exact = graphs(tmp_path / "exact")
    assert fidelity.distance(exact, exact, vocab.ids()) == 0
    near = fidelity.distance(graphs(tmp_path / "near", conv_post=1.01), exact, vocab.ids())
    far = fidelity.distance(graphs(tmp_path / "far", conv_post=3.0), exact, vocab.ids())
    assert 0 < near < far
    assert fidelity.distance(graphs(tmp_path / "nan", conv_post=np.nan), exact, vocab.ids()) == np.inf


@pytest.mark.parametrize(("distance", "precision"), [(0.1, "int8"), (5.0, "fp32"), (np.inf, "fp32")])
def test_int8_that_is_too_far_off_is_not_used(
    distance: float, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = list[Path]()

    def measure(int8: Path, *_: object) -> float:
        measured.append(int8)
        return distance

    monkeypatch.setattr(fidelity, "distance", measure)
    monkeypatch.setattr(build_cache, "ensure", lambda _cache, _weights, key, *_: Path(key.precision))
    save_file({"decoder.a": np.ones(1, np.float32)}, tmp_path / "a.safetensors")
    made = ConvertedWeights(tmp_path / "a.safetensors", "0" * 64)
    settings = Settings.load({"KOKORO_CACHE_DIR": str(tmp_path)}, dotenv=None)
    model = folder.read(described(tmp_path / "models"))
    for _ in range(2):  # the second time it is known
        condition = Condition(Reason.MODELS)
        assert folders._graphs(settings, made, model, STYLES, condition) == Path(precision)
        assert (condition.current is not None) == (precision == "fp32")
        assert len(measured) == 1


def test_other_sizes_need_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kokoro_server.engine.backends.missing", lambda name: ["torch"] if name == "torch" else [])
    settings = Settings.load({"KOKORO_CACHE_DIR": str(tmp_path)}, dotenv=None)
    with pytest.raises(AssetError, match=r"n_layer 1 instead of 3.*needs torch, not installed here: pip install"):
        folders.converted(settings, folder.read(described(tmp_path / "models")))
