"""The engine on torch: checks rows, runs them as one batch, hands out their audio."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_server.engine import noise, reference, tiny
from kokoro_server.engine.model import Batch, BatchedKokoro
from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, Limits, Result, Row
from kokoro_server.engine.rows import check, silence, warmup_row
from kokoro_server.errors import ConfigError

log = logging.getLogger(__name__)

# Peak memory of one padded frame (25 ms of one row) beyond the weights, in single precision on a CPU. At the last stage
# of the generator a frame is 120 steps × 128 channels × 4 bytes = 60 KiB a tensor; about nine are alive at once, and a
# convolution of eleven taps unfolds its input into eleven more. benchmarks/engine_bench.py measures 1.20 MB.
BYTES_PER_PADDED_FRAME = 1_250_000
BATCH_BYTES = 4 * 1024**3  # what one batch may take: 3,400 padded frames, four rows of 21 s
CPU_ROWS = 4  # more rows gain nothing on a CPU: the convolutions are at its peak already
PLAIN_CUDA_ROWS = 16  # on a GPU without the kernels of `CudaEngine`


class TorchEngine:
    """`protocol.Engine` over `BatchedKokoro`.

    A row without tokens has nothing to say: its result has no audio and durations of 0, and the model never sees it.
    """

    def __init__(self, model: BatchedKokoro, max_rows: int = CPU_ROWS) -> None:
        self.model = model
        self._limits = Limits(MAX_TOKENS, max_rows, BATCH_BYTES // BYTES_PER_PADDED_FRAME)

    @staticmethod
    def load(weights: Path, device: str = "auto", precision: str = "auto", memory_fraction: float = 0.9) -> TorchEngine:
        """The engine of `load_all` for one device."""
        return TorchEngine.load_all(weights, [device], precision, memory_fraction, "KOKORO_DEVICE")[0]

    @staticmethod
    def load_all(
        weights: Path,
        devices: Sequence[str],
        precision: str = "auto",
        memory_fraction: float = 0.9,
        setting: str = "KOKORO_DEVICES",
    ) -> list[TorchEngine]:
        """`weights` is a converted safetensors file; `devices` are any of auto, cpu, cuda, cuda:<number>, mps.

        `precision` and `memory_fraction` (what this process may take of a device's memory) count on CUDA only. Engines
        on one device share its memory. `setting` is where the devices were named.
        """
        places = [pick_device(device, setting) for device in devices]
        model = reference.load(weights)
        return [
            on_cuda(model, place, precision, memory_fraction, places.count(place))
            if place.type == "cuda"
            else TorchEngine.of(model, place)
            for place in places
        ]

    @classmethod
    def of(cls, model: Any, device: torch.device) -> TorchEngine:
        """The engine around a `kokoro.KModel`, by torch alone."""
        rows = PLAIN_CUDA_ROWS if device.type == "cuda" else CPU_ROWS
        return cls(BatchedKokoro(model, device, predictor_dtype=predictor_dtype(device)), rows)

    @classmethod
    def tiny(cls, seed: int = 0) -> TorchEngine:
        """The same code around a very small model with random weights, for tests."""
        return cls.of(tiny.build(seed), torch.device("cpu"))

    @property
    def device(self) -> str:
        return str(self.model.place.device)

    @property
    def limits(self) -> Limits:
        return self._limits

    def warmup(self) -> None:
        started = time.perf_counter()
        self.synthesize([warmup_row()])
        log.info("warmed up device=%s seconds=%.2f", self.device, time.perf_counter() - started)

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        for row in rows:
            check(row)
        spoken = [row for row in rows if row.tokens]
        results = iter(self._run(spoken) if spoken else [])
        return [next(results) if row.tokens else silence() for row in rows]

    @torch.inference_mode()
    def _run(self, rows: Sequence[Row]) -> list[Result]:
        plan = self.model.plan(batched(rows, self.model.place.device))
        curves = self.model.curves(plan)
        if any(row.pitch for row in rows):
            semitones = torch.tensor([row.pitch for row in rows], device=self.model.place.device)
            curves = curves.transposed(self.model.voiced(curves), semitones)
        hiss = torch.zeros(len(rows), plan.span.size * SAMPLES_PER_FRAME)
        for line, row, frames in zip(hiss, rows, plan.span.counts, strict=True):
            line[: frames * SAMPLES_PER_FRAME] = torch.from_numpy(noise.draw(row.seed, frames))
        audio = self.model.audio(plan, curves, hiss).float().cpu().numpy()
        durations = plan.durations.cpu().numpy()
        return [
            Result(line[: frames * SAMPLES_PER_FRAME].copy(), lengths[: len(row.tokens) + 2].copy())
            for row, line, lengths, frames in zip(rows, audio, durations, plan.span.counts, strict=True)
        ]


def batched(rows: Sequence[Row], device: torch.device) -> Batch:
    counts = tuple(len(row.tokens) + 2 for row in rows)
    tokens = torch.zeros(len(rows), max(counts), dtype=torch.long)
    for line, row in zip(tokens, rows, strict=True):
        line[1 : len(row.tokens) + 1] = torch.tensor(row.tokens)
    style: Tensor = torch.from_numpy(np.stack([row.style for row in rows]))
    speed = torch.tensor([row.speed for row in rows], dtype=torch.float64)
    return Batch(tokens.to(device), counts, style.to(device), speed)


def on_cuda(model: Any, device: torch.device, precision: str, memory_fraction: float, sharers: int) -> TorchEngine:
    """The engine for NVIDIA GPUs; where its kernels cannot be had, the plain one."""
    if trouble := kernel_trouble(device):
        log.warning("no fast kernels, this GPU will be slow: %s", trouble)
        return TorchEngine.of(model, device)
    from kokoro_server.engine.cuda_engine import CudaEngine

    log.info("preparing the GPU; the first time its kernels are compiled, which takes a minute or two")
    engine = CudaEngine(model, device, "fp16" if precision == "auto" else precision, memory_fraction, sharers)
    try:
        engine.synthesize([warmup_row()])
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception:
        log.warning("the fast kernels fail on this GPU, which will be slow; please report it", exc_info=True)
        return TorchEngine.of(model, device)
    return engine


def kernel_trouble(device: torch.device) -> str | None:
    """Why there are no fast kernels for a GPU of this machine, if there are none, and what to do."""
    try:
        from kokoro_server.engine import fused

        fused.try_out(device)
    except ImportError as error:  # torch for Windows comes without it
        return f"{error}; pip install triton"
    except Exception as error:
        return (
            f"{error}; Triton compiles them here, with a C compiler and Python's headers: install gcc and python3-dev"
        )
    return None


def pick_device(name: str, setting: str = "KOKORO_DEVICE") -> torch.device:
    """`auto` is the first of cuda, mps and cpu that is there; any other name must be. `setting` is for the message."""
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


def predictor_dtype(device: torch.device) -> torch.dtype:
    """On a CPU, double: for a twentieth of the time, a row's durations and F0 do not hang on the rows beside it.

    A last-bit difference in F0 grows, summed into phase, to a hundredth of the sound.
    """
    return torch.float64 if device.type == "cpu" else torch.float32
