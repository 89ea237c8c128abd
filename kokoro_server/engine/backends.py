"""Chooses the backend: torch for GPUs, or ONNX Runtime, which is faster on a CPU. Imports neither to decide."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Literal

from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError

Backend = Literal["torch", "onnx"]

REQUIRED = {"torch": ("torch", "kokoro", "transformers"), "onnx": ("onnxruntime",)}
EXTRA = {"torch": "pip install 'kokoro-server[torch]'", "onnx": "pip install kokoro-server"}
CUDA_DRIVER = {"Windows": "nvcuda.dll"}
GPUS = ("cuda", "mps")


def choose(settings: Settings) -> Backend:
    """The backend for these settings on this machine. ConfigError if there is none."""
    setting, devices = named_devices(settings)
    on_gpu = [device for device in devices if device.partition(":")[0] in GPUS]
    if settings.backend == "torch":
        return _require("torch", "KOKORO_BACKEND=torch")
    if settings.backend == "onnx":
        if on_gpu:
            raise ConfigError(
                f"KOKORO_BACKEND=onnx: runs on a CPU, not on {setting}={','.join(devices)}; "
                "set KOKORO_DEVICE=cpu or KOKORO_BACKEND=torch"
            )
        return _require("onnx", "KOKORO_BACKEND=onnx")
    if on_gpu:
        return _require("torch", f"{setting}={','.join(devices)}")
    if "auto" in devices and finds_gpu():
        return "torch"
    installed: Sequence[Backend] = [backend for backend in ("onnx", "torch") if not missing(backend)]
    if not installed:
        raise ConfigError(f"nothing to run the model on is installed; {EXTRA['onnx']}, or for a GPU {EXTRA['torch']}")
    return installed[0]


def named_devices(settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The setting that names the devices, and the devices."""
    return ("KOKORO_DEVICES", settings.devices) if settings.devices else ("KOKORO_DEVICE", (settings.device,))


def missing(backend: Backend) -> list[str]:
    """The packages that this backend needs but are not installed."""
    return [name for name in REQUIRED[backend] if importlib.util.find_spec(name) is None]


def finds_gpu() -> bool:
    """Whether torch is installed and finds a GPU. Imports torch, which takes seconds, only where a GPU is likely."""
    if missing("torch"):
        return False
    on_apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    if not (_nvidia_driver() or on_apple or "rocm" in metadata.version("torch")):
        return False
    from kokoro_server.engine import devices

    return any(devices.is_available(kind) for kind in GPUS)


def expects_nvidia_gpu(settings: Settings) -> bool:
    """Whether the model is likely to run on an NVIDIA GPU. Does not import torch, which may disagree."""
    _, devices = named_devices(settings)
    if any(device.startswith("cuda") for device in devices):
        return True
    return "auto" in devices and settings.backend != "onnx" and not missing("torch") and _nvidia_gpus() > 0


def unused_gpu(settings: Settings, backend: str) -> str | None:
    """Why the server does not use this machine's NVIDIA GPU, if the settings would let it; else None."""
    _, devices = named_devices(settings)
    if "auto" not in devices or settings.backend == "onnx" or not _nvidia_gpus():
        return None
    if backend == "torch" and finds_gpu():
        return None
    if missing("torch"):
        return f"this machine has an NVIDIA GPU, but torch is not installed, so the CPU is used: {EXTRA['torch']}"
    return (
        f"this machine has an NVIDIA GPU, but torch {metadata.version('torch')} cannot use it, so the CPU is used: "
        "install a torch that is built for the driver's CUDA version, or set KOKORO_DEVICE=cpu"
    )


def _require(backend: Backend, why: str) -> Backend:
    if absent := missing(backend):
        raise ConfigError(f"{why}: needs {', '.join(absent)}, not installed; {EXTRA[backend]}")
    return backend


def _nvidia_driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(CUDA_DRIVER.get(platform.system(), "libcuda.so.1"))
    except OSError:
        return None


def _nvidia_gpus() -> int:
    """The number of GPUs that the driver offers. An image may have the driver's library on a machine without GPUs."""
    driver, count = _nvidia_driver(), ctypes.c_int(0)
    if driver is None or driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
