"""Devices by name, and which engine a GPU gets."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import kokoro_server.engine.cuda.kernels
from kokoro_server.engine import devices
from kokoro_server.engine.devices import CudaOptions, kernel_trouble, load_all, on_cuda, pick_device
from kokoro_server.engine.torch_engine import TorchEngine, set_fp32_precision
from kokoro_server.errors import ConfigError, SetupError
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


def test_torch_keeps_to_a_containers_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(devices, "thread_count", lambda: 1)
    monkeypatch.setattr(devices.skeleton, "load", lambda *_: tiny_model.build())
    try:
        load_all(tmp_path / "not read", ["cpu"])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def fp32_precision_as_before() -> Iterator[None]:
    before = set_fp32_precision("ieee", "ieee", "ieee")
    yield
    set_fp32_precision(*before)


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    """Stands in for a module that only imports beside a GPU."""
    module = SimpleNamespace(**parts)
    package = kokoro_server.engine.cuda.kernels if name == "ops" else kokoro_server.engine.cuda
    monkeypatch.setitem(sys.modules, f"{package.__name__}.{name}", module)
    monkeypatch.setattr(package, name, module, raising=False)


def test_a_gpu_without_a_compiler_is_slow_rather_than_useless(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in(monkeypatch, "ops", try_out=Mock(side_effect=RuntimeError("Failed to find C compiler")))
    engine = on_cuda(tiny_model.build(), torch.device("cpu"), CudaOptions())
    assert type(engine) is TorchEngine
    assert len(engine.synthesize([random_row(1, 5)])[0].audio)
    (condition,) = engine.conditions
    assert condition.current
    for message in (caplog.text, condition.current.message):
        assert "Failed to find C compiler" in message
        assert "install gcc and python3-dev" in message


@pytest.mark.parametrize("error", [None, RuntimeError("no such instruction"), torch.cuda.OutOfMemoryError("full")])
def test_a_gpu_whose_kernels_fail_is_slow_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    fast = SimpleNamespace(compile_kernels=Mock(), synthesize=Mock(side_effect=error))
    stand_in(monkeypatch, "ops", try_out=Mock())
    stand_in(monkeypatch, "engine", CudaEngine=lambda *_: fast)
    arguments = tiny_model.build(), torch.device("cpu"), CudaOptions()
    if isinstance(error, torch.cuda.OutOfMemoryError):
        with pytest.raises(SetupError, match="out of memory"):
            on_cuda(*arguments)
        return
    engine = on_cuda(*arguments)
    assert (engine is fast) == (error is None)
    assert ("no such instruction" in caplog.text) == (error is not None)
    assert ("degraded reason=gpu_kernels" in caplog.text) == (error is not None)


def test_kernels_are_compiled_ahead_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_compiled", set())
    fast = SimpleNamespace(compile_kernels=Mock(), synthesize=Mock())
    stand_in(monkeypatch, "ops", try_out=Mock())
    stand_in(monkeypatch, "engine", CudaEngine=lambda *_: fast)
    for precision in ("auto", "fp16", "bf16", "auto"):
        on_cuda(tiny_model.build(), torch.device("cpu"), CudaOptions(precision))
    assert fast.compile_kernels.call_count == 2  # fp16 and bf16: a model that is loaded again finds its kernels


POISONED = RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be")


@pytest.mark.parametrize("where", ["try_out", "first batch"])
def test_a_poisoned_gpu_ends_the_start(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Nothing else works on it either: a fallback would fail with every request."""
    stand_in(monkeypatch, "ops", try_out=Mock(side_effect=POISONED if where == "try_out" else None))
    fast = SimpleNamespace(compile_kernels=Mock(), synthesize=Mock(side_effect=POISONED))
    stand_in(monkeypatch, "engine", CudaEngine=lambda *_: fast)
    with pytest.raises(SetupError, match=r"the GPU has failed .*illegal memory access.*start again"):
        on_cuda(tiny_model.build(), torch.device("cpu"), CudaOptions())


@pytest.mark.parametrize(("asked", "used"), [("auto", "tf32"), ("tf32", "tf32"), ("fp16", "tf32"), ("fp32", "fp32")])
def test_without_fast_kernels_the_precision_is_what_it_says(
    monkeypatch: pytest.MonkeyPatch, asked: str, used: str
) -> None:
    stand_in(monkeypatch, "ops", try_out=Mock(side_effect=RuntimeError("no compiler")))
    engine = on_cuda(tiny_model.build(), torch.device("cpu"), CudaOptions(asked))
    assert engine.precision == used
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert torch.backends.cudnn.rnn.fp32_precision == "ieee"  # type: ignore[attr-defined]
    assert torch.backends.cudnn.conv.fp32_precision == "ieee"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("asked", "decoder"), [("auto", "tf32"), ("fp32", "ieee")])
def test_tf32_never_decides_durations_and_f0(monkeypatch: pytest.MonkeyPatch, asked: str, decoder: str) -> None:
    engine = TorchEngine.without_kernels(tiny_model.build(), torch.device("cpu"), asked, "a test")
    modes: dict[str, str] = {}
    for part in ("align", "prosody", "audio"):
        compute = getattr(engine.model, part)

        def noted(*given: Any, part: str = part, compute: Any = compute) -> Any:
            modes[part] = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
            return compute(*given)

        monkeypatch.setattr(engine.model, part, noted)
    engine.synthesize([random_row(1, 5)])
    assert modes == {"align": "ieee", "prosody": "ieee", "audio": decoder}


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is installed")
def test_a_gpu_without_triton_says_what_to_install() -> None:
    assert "pip install triton" in (kernel_trouble(torch.device("cpu")) or "")
