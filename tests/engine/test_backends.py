"""Which backend is taken, for every combination of settings and what is installed."""

from __future__ import annotations

from typing import Any

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.errors import ConfigError

BOTH = ("torch", "onnx")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with the installed packages, and whether a driver and a GPU are present."""

    def described(*installed: str, driver: bool = False, gpu: bool = False, gpus: int = 0) -> None:
        absent = {"torch": ["torch"], "onnx": ["onnxruntime"]}
        monkeypatch.setattr(backends, "missing", lambda backend: [] if backend in installed else absent[backend])
        monkeypatch.setattr(backends, "_nvidia_driver", lambda: object() if driver else None)
        monkeypatch.setattr(backends, "_nvidia_gpus", lambda: gpus)
        monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
        monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)

    return described


@pytest.mark.parametrize(
    ("installed", "gpu", "settings", "expected"),
    [
        (BOTH, False, {}, "onnx"),
        (BOTH, True, {}, "torch"),
        (BOTH, True, {"device": "cpu"}, "onnx"),
        (BOTH, True, {"device": "cuda:1"}, "torch"),
        (BOTH, True, {"devices": ("cuda:0", "cuda:1")}, "torch"),
        (BOTH, False, {"devices": ("cpu", "cpu")}, "onnx"),
        (BOTH, False, {"device": "mps"}, "torch"),
        (BOTH, False, {"backend": "torch"}, "torch"),
        (BOTH, True, {"backend": "onnx"}, "onnx"),
        (BOTH, False, {"backend": "onnx", "device": "cpu"}, "onnx"),
        (("onnx",), False, {}, "onnx"),
        (("torch",), False, {}, "torch"),
        (("torch",), False, {"device": "cpu"}, "torch"),
    ],
)
def test_auto_is_torch_on_a_gpu_and_onnx_on_a_cpu(
    machine: Any, installed: tuple[str, ...], gpu: bool, settings: dict[str, Any], expected: str
) -> None:
    machine(*installed, driver=gpu, gpu=gpu)
    assert backends.choose(Settings(**settings)) == expected


@pytest.mark.parametrize(
    ("installed", "settings", "message"),
    [
        (BOTH, {"backend": "onnx", "device": "cuda"}, r"KOKORO_BACKEND=onnx: .*KOKORO_DEVICE=cuda; set KOKORO_DEVICE"),
        (BOTH, {"backend": "onnx", "devices": ("cuda:0", "cuda:1")}, r"not on KOKORO_DEVICES=cuda:0,cuda:1; set"),
        (
            ("onnx",),
            {"backend": "torch"},
            r"KOKORO_BACKEND=torch: needs torch, not installed; .*kokoro-server\[torch\]",
        ),
        (("onnx",), {"device": "cuda"}, r"KOKORO_DEVICE=cuda: needs torch, not installed; .*kokoro-server\[torch\]"),
        (("torch",), {"backend": "onnx"}, r"KOKORO_BACKEND=onnx: needs onnxruntime, .*pip install kokoro-server"),
        ((), {}, r"nothing to run the model on .*pip install kokoro-server.*kokoro-server\[torch\]"),
    ],
)
def test_what_cannot_be_met_is_one_line_that_says_what_to_do(
    machine: Any, installed: tuple[str, ...], settings: dict[str, Any], message: str
) -> None:
    machine(*installed)
    with pytest.raises(ConfigError, match=message) as raised:
        backends.choose(Settings(**settings))
    assert "\n" not in raised.value.message


def test_a_gpu_without_torch_is_pointed_out(machine: Any) -> None:
    machine("onnx", driver=True, gpus=1)
    assert backends.choose(Settings()) == "onnx"
    assert "kokoro-server[torch]" in (backends.unused_gpu(Settings(), "onnx") or "")


def test_a_gpu_that_torch_cannot_use_is_pointed_out(machine: Any) -> None:
    machine(*BOTH, driver=True, gpus=1)
    assert backends.choose(Settings()) == "onnx"
    assert "built for the driver's CUDA version" in (backends.unused_gpu(Settings(), "onnx") or "")


@pytest.mark.parametrize("settings", [{"device": "cpu"}, {"backend": "onnx"}, {"devices": ("cpu",)}])
def test_a_gpu_that_is_not_wanted_is_not_missed(machine: Any, settings: dict[str, Any]) -> None:
    machine("onnx", driver=True, gpus=1)
    assert backends.unused_gpu(Settings(**settings), "onnx") is None


def test_a_gpu_that_is_used_is_not_missed(machine: Any) -> None:
    machine(*BOTH, driver=True, gpu=True, gpus=1)
    assert backends.unused_gpu(Settings(), "torch") is None


def test_a_driver_library_without_a_gpu_is_no_gpu_unused(machine: Any) -> None:
    machine("onnx", driver=True)
    assert backends.unused_gpu(Settings(), "onnx") is None


def test_a_driver_without_a_gpu_is_no_gpu(machine: Any) -> None:
    machine(*BOTH, driver=True, gpu=False)
    assert backends.choose(Settings()) == "onnx"
