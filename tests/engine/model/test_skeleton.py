"""The place for the weights against the model that they are of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kokoro_server.engine.model import reference, skeleton
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.errors import AssetError
from tests import tiny_model
from tests.engine.rows import random_row

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def plain() -> Any:
    return tiny_model.build()


@pytest.fixture
def weights(plain: Any, tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in plain.state_dict().items()}, path)
    return path


def test_it_has_the_parameters_of_the_real_model() -> None:
    real, own = reference.blank().state_dict(), skeleton.build().state_dict()
    assert {name: tensor.shape for name, tensor in own.items()} == {name: t.shape for name, t in real.items()}


def test_the_engine_says_the_same_with_either(plain: Any, weights: Path) -> None:
    own = skeleton.build(tiny_model.configuration())
    with reference.quiet():
        tiny_model.shrink(own.decoder)
    reference.load_strictly(own, weights, assign=True)
    rows = [random_row(1, 12), random_row(2, 5)]
    for a, b in zip(*(TorchEngine.of(model, CPU).synthesize(rows) for model in (plain, own)), strict=True):
        assert np.array_equal(a.durations, b.durations)
        assert np.array_equal(a.audio, b.audio)


def test_a_file_of_another_model_is_refused(weights: Path) -> None:
    with pytest.raises(AssetError, match="not a complete Kokoro-82M state"):
        skeleton.load(weights)


def test_it_needs_no_transformers() -> None:
    code = "import sys; from kokoro_server.engine.model import skeleton; skeleton.build(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert "kokoro_modules.istftnet" in loaded
    assert not [name for name in loaded if name.startswith(("transformers", "misaki", "torch._dynamo"))]
