"""The engine on torch: checks rows, runs them as one batch, returns their audio."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_server.engine.model.kokoro import BatchedKokoro, TokenBatch
from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, EngineLimits, Result, Row
from kokoro_server.engine.rows import check, empty_result, noise, warmup_row
from kokoro_server.engine.speed import PASSES, present_factor, real_time_factor, timed
from kokoro_server.observability.conditions import Condition, Reason

os.environ.setdefault("ONEDNN_JIT_PROFILE", "0")  # else each process leaves a /tmp/perf-PID.map behind

log = logging.getLogger(__name__)

# Peak memory of one padded frame (25 ms of one row) beyond the weights, in single precision on a CPU. At the last stage
# of the generator a frame is 120 steps × 128 channels × 4 bytes = 60 KiB a tensor; about nine are alive at once, and a
# convolution of eleven taps unfolds its input into eleven more. benchmarks/engine_bench.py measures 1.20 MB.
BYTES_PER_PADDED_FRAME = 1_250_000
BATCH_BYTES = 4 * 1024**3  # memory of one batch: 3,400 padded frames, four rows of 21 s
CPU_ROWS = 4  # more rows gain nothing on a CPU: the convolutions already reach its peak
TORCH_CUDA_ROWS = 16  # on a GPU without the kernels of `CudaEngine`


class TorchEngine:
    """`protocol.Engine` over `BatchedKokoro`, which never sees a row without tokens."""

    conditions: tuple[Condition, ...] = ()
    precision = "fp32"  # of the arithmetic
    real_time_factor: float | None = None
    present_factor: float | None = None

    def __init__(self, model: BatchedKokoro, max_rows: int = CPU_ROWS) -> None:
        self.model = model
        self._tokens = len(model.albert.word_embeddings)
        self._limits = EngineLimits(MAX_TOKENS, max_rows, BATCH_BYTES // BYTES_PER_PADDED_FRAME)

    @classmethod
    def of(cls, model: Any, device: torch.device) -> TorchEngine:
        """The engine around a `kokoro.KModel`, by torch alone."""
        rows = TORCH_CUDA_ROWS if device.type == "cuda" else CPU_ROWS
        return cls(BatchedKokoro(model, device, predictor_dtype=predictor_dtype(device)), rows)

    @classmethod
    def without_kernels(cls, model: Any, device: torch.device, precision: str, trouble: str) -> TorchEngine:
        """The engine for a GPU on which the fast kernels do not run, for the reason `trouble`.

        The decoder's convolutions are in TF32, or in fp32 if that is `precision`. Durations and F0 are always in fp32.
        The setting holds for the whole process.
        """
        engine = cls.of(model, device)
        engine.precision = "fp32" if precision == "fp32" else "tf32"
        set_fp32_precision("ieee", "ieee", "ieee")
        message = f"no fast kernels, this GPU is many times slower than it could be: {trouble}"
        engine.conditions = (Condition(Reason.GPU_KERNELS, message),)
        return engine

    @property
    def device(self) -> str:
        return str(self.model.placement.device)

    @property
    def limits(self) -> EngineLimits:
        return self._limits

    def warmup(self) -> None:
        started = time.perf_counter()
        self.synthesize([warmup_row(self._tokens)])
        log.info("warmed up device=%s seconds=%.2f", self.device, time.perf_counter() - started)

    def measure(self) -> None:
        """Measure the speed of one row alone, on a CPU. Other devices are fast, and are not measured."""
        if self.model.placement.device.type == "cpu":
            passes = [timed(lambda: len(self.synthesize([warmup_row(self._tokens)])[0].audio)) for _ in range(PASSES)]
            self.real_time_factor = real_time_factor(passes, torch.get_num_threads())
            self.present_factor = present_factor(passes)
            log.info("measured device=%s real_time_factor=%.3f", self.device, self.real_time_factor)

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        for row in rows:
            check(row, self._tokens)
        spoken = [row for row in rows if row.tokens]
        results = iter(self._run(spoken) if spoken else [])
        return [next(results) if row.tokens else empty_result() for row in rows]

    @torch.inference_mode()
    def _run(self, rows: Sequence[Row]) -> list[Result]:
        device = self.model.placement.device
        features = self.model.align(token_batch(rows, device))
        prosody = self.model.prosody(features)
        if any(row.pitch for row in rows):
            semitones = torch.tensor([row.pitch for row in rows], device=device)
            prosody = prosody.transposed(self.model.voiced(prosody), semitones)
        counts = features.lengths.counts
        samples = torch.zeros(len(rows), features.lengths.size * SAMPLES_PER_FRAME)
        for line, row, frames in zip(samples, rows, counts, strict=True):
            line[: frames * SAMPLES_PER_FRAME] = torch.from_numpy(noise(row.seed, frames))
        with self._decoder_precision():
            audio = self.model.audio(features, prosody, samples).float().cpu().numpy()
        durations = features.durations.cpu().numpy()
        return [
            Result(line[: frames * SAMPLES_PER_FRAME].copy(), frames_per_token[: len(row.tokens) + 2].copy())
            for row, line, frames_per_token, frames in zip(rows, audio, durations, counts, strict=True)
        ]

    def _decoder_precision(self) -> AbstractContextManager[Any]:
        return fp32_precision("ieee", "tf32", "ieee") if self.precision == "tf32" else nullcontext()


def token_batch(rows: Sequence[Row], device: torch.device) -> TokenBatch:
    counts = tuple(len(row.tokens) + 2 for row in rows)
    tokens = torch.zeros(len(rows), max(counts), dtype=torch.long)
    for line, row in zip(tokens, rows, strict=True):
        line[1 : len(row.tokens) + 1] = torch.tensor(row.tokens)
    style: Tensor = torch.from_numpy(np.stack([row.style for row in rows]))
    speed = torch.tensor([row.speed for row in rows], dtype=torch.float64)
    return TokenBatch(tokens.to(device), counts, style.to(device), speed)


def predictor_dtype(device: torch.device) -> torch.dtype:
    """Double on a CPU. It costs a twentieth of the time, and a row's durations and F0 do not depend on its neighbours.

    A last-bit difference in F0, summed into phase, grows to a hundredth of the sound.
    """
    return torch.float64 if device.type == "cpu" else torch.float32


def set_fp32_precision(matmul: str, conv: str, rnn: str) -> list[str]:
    """Set how torch computes in single precision on a GPU: "ieee", or "tf32", which is faster and rounds to 11 bits.

    Returns the modes set before.
    """
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    for backend, mode in zip(backends, (matmul, conv, rnn), strict=True):
        backend.fp32_precision = mode
    return before


@contextmanager
def fp32_precision(matmul: str, conv: str, rnn: str) -> Iterator[None]:
    """`set_fp32_precision` for the work inside."""
    before = set_fp32_precision(matmul, conv, rnn)
    try:
        yield
    finally:
        set_fp32_precision(*before)
