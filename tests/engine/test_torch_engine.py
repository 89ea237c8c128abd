"""What only the engine on torch promises: one forward pass for a batch, and devices by name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch

import kokoro_server.engine.cuda
from kokoro_server.engine.devices import kernel_trouble, on_cuda, pick_device
from kokoro_server.engine.protocol import STYLE_DIM, Row
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.errors import ConfigError
from tests import tiny_model
from tests.engine.rows import random_row

STYLE = np.zeros(STYLE_DIM, np.float32)


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return tiny_model.torch_engine()


def test_all_rows_go_through_the_decoder_at_once(engine: TorchEngine) -> None:
    with patch.object(engine.model, "decoder", wraps=engine.model.decoder) as decoder:
        engine.synthesize([random_row(seed, 5 + seed) for seed in range(4)])
    assert decoder.call_count == 1


def test_a_row_with_nothing_to_say_costs_nothing(engine: TorchEngine) -> None:
    with patch.object(engine.model, "plan", side_effect=AssertionError("the model was run")):
        assert len(engine.synthesize([Row((), STYLE)])) == 1
        assert engine.synthesize([]) == []


def test_a_batch_of_four_is_the_best_a_cpu_does(engine: TorchEngine) -> None:
    assert engine.limits.max_rows == 4


def test_synthesis_leaves_torch_as_it_was(engine: TorchEngine) -> None:
    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.random.get_rng_state()
    engine.synthesize([random_row(1, 3)])
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2])


def test_tiny_models_of_one_seed_are_alike(engine: TorchEngine) -> None:
    row = random_row(1, 5)
    same, other = tiny_model.torch_engine(), tiny_model.torch_engine(seed=1)
    assert np.array_equal(same.synthesize([row])[0].audio, engine.synthesize([row])[0].audio)
    assert not np.array_equal(other.synthesize([row])[0].audio, engine.synthesize([row])[0].audio)


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"KOKORO_DEVICE={name}"):
        pick_device(name)


def test_the_setting_at_fault_is_named(tmp_path: Path) -> None:
    for devices in (["cpu", "cuda:99"], ["cuda:99"]):
        with pytest.raises(ConfigError, match=r"^KOKORO_DEVICES=cuda:99: .* finds no such device"):
            devices.load_all(tmp_path / "not read for this", devices)


def test_auto_finds_a_device() -> None:
    assert pick_device("auto").type in {"cpu", "cuda", "mps"}
    assert pick_device("cpu").type == "cpu"


def put_in_place(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    """A module of the engine's that only imports where there is a GPU."""
    module = SimpleNamespace(**parts)
    monkeypatch.setitem(sys.modules, f"kokoro_server.engine.cuda.{name}", module)
    monkeypatch.setattr(kokoro_server.engine.cuda, name, module, raising=False)


def test_a_gpu_without_a_compiler_is_slow_rather_than_useless(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_in_place(monkeypatch, "ops", try_out=Mock(side_effect=RuntimeError("Failed to find C compiler")))
    engine = on_cuda(tiny_model.build(), torch.device("cpu"), "auto", 0.9, 1)
    assert type(engine) is TorchEngine
    assert len(engine.synthesize([random_row(1, 5)])[0].audio)
    assert "Failed to find C compiler" in caplog.text
    assert "install gcc and python3-dev" in caplog.text


@pytest.mark.parametrize("error", [None, RuntimeError("no such instruction"), torch.cuda.OutOfMemoryError("full")])
def test_a_gpu_whose_kernels_fail_is_slow_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    fast = SimpleNamespace(synthesize=Mock(side_effect=error))
    put_in_place(monkeypatch, "ops", try_out=Mock())
    put_in_place(monkeypatch, "engine", CudaEngine=lambda *_: fast)
    place = tiny_model.build(), torch.device("cpu"), "auto", 0.9, 1
    if isinstance(error, torch.cuda.OutOfMemoryError):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            on_cuda(*place)
        return
    engine = on_cuda(*place)
    assert (engine is fast) == (error is None)
    assert ("no such instruction" in caplog.text) == (error is not None)


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="there is Triton")
def test_a_gpu_without_triton_says_what_to_install() -> None:
    assert "pip install triton" in (kernel_trouble(torch.device("cpu")) or "")
