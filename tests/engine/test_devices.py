"""Devices by name, and which engine a GPU gets."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import kokoro_server.engine.cuda
from kokoro_server.engine.devices import kernel_trouble, load_all, on_cuda, pick_device
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.errors import ConfigError
from tests import tiny_model
from tests.engine.rows import random_row


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"KOKORO_DEVICE={name}"):
        pick_device(name)


def test_the_setting_at_fault_is_named(tmp_path: Path) -> None:
    for names in (["cpu", "cuda:99"], ["cuda:99"]):
        with pytest.raises(ConfigError, match=r"^KOKORO_DEVICES=cuda:99: .* finds no such device"):
            load_all(tmp_path / "not read for this", names)


def test_auto_finds_a_device() -> None:
    assert pick_device("auto").type in {"cpu", "cuda", "mps"}
    assert pick_device("cpu").type == "cpu"


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    """Stands in for a module that only imports where there is a GPU."""
    module = SimpleNamespace(**parts)
    monkeypatch.setitem(sys.modules, f"kokoro_server.engine.cuda.{name}", module)
    monkeypatch.setattr(kokoro_server.engine.cuda, name, module, raising=False)


def test_a_gpu_without_a_compiler_is_slow_rather_than_useless(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in(monkeypatch, "ops", try_out=Mock(side_effect=RuntimeError("Failed to find C compiler")))
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
    stand_in(monkeypatch, "ops", try_out=Mock())
    stand_in(monkeypatch, "engine", CudaEngine=lambda *_: fast)
    arguments = tiny_model.build(), torch.device("cpu"), "auto", 0.9, 1
    if isinstance(error, torch.cuda.OutOfMemoryError):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            on_cuda(*arguments)
        return
    engine = on_cuda(*arguments)
    assert (engine is fast) == (error is None)
    assert ("no such instruction" in caplog.text) == (error is not None)


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="there is Triton")
def test_a_gpu_without_triton_says_what_to_install() -> None:
    assert "pip install triton" in (kernel_trouble(torch.device("cpu")) or "")
