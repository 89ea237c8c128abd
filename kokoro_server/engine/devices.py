"""Makes the engines that run on torch, one for each device."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kokoro_server.engine.cuda.memory import explain_errors, release
from kokoro_server.engine.model import skeleton
from kokoro_server.engine.rows import warmup_row
from kokoro_server.engine.sticky import sticky_error
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.errors import ConfigError, SetupError
from kokoro_server.runtime.machine import thread_count

if TYPE_CHECKING:
    from kokoro_server.engine.cuda.engine import CudaEngine

log = logging.getLogger(__name__)

_compiled = set[tuple[torch.device, str]]()  # devices and precisions whose kernels are there


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """Options that matter on CUDA only."""

    precision: str = "auto"
    memory_fraction: float = 0.9  # the share of a device's memory that this process may take
    max_graphs: int = 384  # per engine
    max_pinned_bytes: int = 2 * 2**30  # host memory for the audio of an engine
    models: int = 1  # that share the devices
    express: bool = True  # whether an engine has an express engine beside it


def load_all(
    weights: Path,
    devices: Sequence[str],
    options: CudaOptions | None = None,
    setting: str = "KOKORO_DEVICES",
    configuration: Mapping[str, Any] | None = None,
) -> list[TorchEngine]:
    """`weights` is a converted safetensors file; `devices` are any of auto, cpu, cuda, cuda:<number>, mps.

    Engines on one device share its memory. `setting` names the devices in error messages. A model with a
    `configuration` of other sizes than Kokoro v1.0 runs by torch alone: the fast kernels are made for those.
    """
    picked = [pick_device(device, setting) for device in devices]
    torch.set_num_threads(min(torch.get_num_threads(), thread_count()))  # torch ignores a container's quota
    for device in {device for device in picked if device.type == "cuda"}:
        # The first use of a GPU takes a second, mostly outside the interpreter. If it fails, the next use reports it.
        threading.Thread(target=_touch, args=(device,), daemon=True).start()
    model = skeleton.load(weights, configuration)
    options = options or CudaOptions()
    return [
        on_cuda(model, device, options, picked.count(device) * options.models)
        if device.type == "cuda" and configuration is None
        else TorchEngine.of(model, device)
        for device in picked
    ]


def free_memory(names: Iterable[str]) -> None:
    """Release the memory that torch keeps on these devices after everything on them has been dropped."""
    for device in {torch.device(name) for name in names}:
        if device.type == "cuda":
            release(device)
        elif device.type == "mps":
            torch.mps.empty_cache()


def _touch(device: torch.device) -> None:
    with suppress(Exception):
        torch.zeros(1, device=device)


def on_cuda(model: Any, device: torch.device, options: CudaOptions, engines_on_device: int = 1) -> TorchEngine:
    """The engine for NVIDIA GPUs. Where its kernels do not run, the slow one by torch alone."""
    precision = options.precision
    if trouble := kernel_trouble(device):
        with explain_errors(device):
            return TorchEngine.without_kernels(model, device, precision, trouble)
    from kokoro_server.engine.cuda.engine import CudaEngine

    log.info("preparing the GPU; the first time its kernels are compiled, which can take a minute")
    with explain_errors(device):
        wanted = "fp16" if precision == "auto" else precision
        limits = options.max_graphs, options.max_pinned_bytes, options.express
        engine = CudaEngine(model, device, wanted, options.memory_fraction, engines_on_device, *limits)
        try:
            if (device, wanted) not in _compiled:  # what this process has compiled it keeps
                _compile_ahead(engine)
                _compiled.add((device, wanted))
            engine.synthesize([warmup_row()])
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            if sticky_error(error):
                raise
            log.warning("the fast kernels fail on this GPU", exc_info=True)
            trouble = f"they fail with {type(error).__name__}; please report it with the traceback in the log"
        else:
            return engine
        del engine  # the next one needs its memory
        return TorchEngine.without_kernels(model, device, precision, trouble)


def _compile_ahead(engine: CudaEngine) -> None:
    """Compile all kernels in parallel. If that fails, each is compiled when it is first needed."""
    try:
        engine.compile_kernels()
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:
        if sticky_error(error):
            raise
        log.warning("kernels could not be compiled ahead, so this start takes longer", exc_info=True)


def kernel_trouble(device: torch.device) -> str | None:
    """Why the fast kernels do not run on a GPU, and what to do; None if they run.

    Raises SetupError if the GPU itself is at fault: without the kernels it would fail too.
    """
    try:
        with explain_errors(device):
            from kokoro_server.engine.cuda.kernels import ops

            ops.try_out(device)
    except SetupError:
        raise
    except ImportError as error:  # torch for Windows comes without Triton
        return f"{error}; pip install triton"
    except Exception as error:
        return (
            f"{error}; Triton compiles them here, with a C compiler and Python's headers: install gcc and python3-dev"
        )
    return None


def pick_device(name: str, setting: str = "KOKORO_DEVICE") -> torch.device:
    """`auto` is the first available of cuda, mps and cpu. ConfigError, which names `setting`, for a missing device."""
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if is_available(kind)))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"{setting}={name}: not a device; use auto, cpu, cuda, cuda:<number> or mps") from error
    if not is_available(device.type) or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        found = f"torch {torch.__version__} finds no such device, but {torch.cuda.device_count()} for CUDA"
        raise ConfigError(f"{setting}={name}: {found}; set KOKORO_DEVICE to auto or cpu")
    return device


def is_available(kind: str) -> bool:
    if kind == "mps":
        return torch.backends.mps.is_available()
    return kind == "cpu" or (kind == "cuda" and torch.cuda.is_available())


def torch_version() -> str:
    return f"torch {torch.__version__}, CUDA {torch.version.cuda or 'not built in'}"


def describe_cuda(names: Sequence[str]) -> tuple[str, set[str]]:
    """The cards behind these device names, in words; and why the fast kernels do not run on them, if so."""
    cards = [torch.cuda.get_device_properties(name) for name in names]
    troubles = {trouble for name in names if (trouble := kernel_trouble(torch.device(name)))}
    return "; ".join(f"{card.name}, {card.total_memory / 2**30:.0f} GiB" for card in cards), troubles
