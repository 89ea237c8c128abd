"""The engine on onnxruntime, for CPUs: each row by itself through the graphs that `onnx_build` made. No torch here."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from kokoro_server.engine import noise
from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLE_RATE, Limits, Result, Row
from kokoro_server.engine.rows import check, silence, warmup_row

log = logging.getLogger(__name__)

# Peak memory of one frame (25 ms of one row) beyond the weights: 0.52 to 0.56 MB in int8, 0.58 to 0.62 in fp32.
BYTES_PER_FRAME = 650_000
BATCH_BYTES = 4 * 1024**3  # what the rows of one call may take
LONG_FRAMES = 480  # after a row longer than this (12 s), memory goes back to the system
MIN_ROWS = 4  # of one call, on however small a machine: what a queue hands over at once
GAIN = 1.1  # rows run side by side where that is at least so much faster


class OnnxEngine:
    """`protocol.Engine`. A row never shares a tensor with another, so nothing of it hangs on its neighbours.

    `real_time_factor` is what `measure` found: seconds of computing for a second of audio, one row alone.
    """

    device = "cpu"

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        """`folder` is what `build.build` wrote; `threads` are all cores by default."""
        self._threads = threads or cores()
        self._text, self._decode = (self._session(folder / f"{name}.onnx") for name in ("text", "decode"))
        self.precision: str = self._decode.get_modelmeta().custom_metadata_map["precision"]
        self.real_time_factor: float | None = None
        self._side_by_side = 1
        self._pool = ThreadPoolExecutor(self._threads, "onnx")
        self._limits = Limits(MAX_TOKENS, max(MIN_ROWS, self._threads), BATCH_BYTES // BYTES_PER_FRAME)
        self._shrink = onnxruntime.RunOptions()
        self._shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    @property
    def limits(self) -> Limits:
        return self._limits

    def warmup(self) -> None:
        self._speak(warmup_row())

    def measure(self) -> None:
        """How fast it is, and whether rows are better run side by side than one after the other.

        The machine should have nothing else to do meanwhile. A short row tells as much as a long one.
        """
        alone, samples = min(self._timed([warmup_row()]) for _ in range(2))
        self.real_time_factor = alone / samples * SAMPLE_RATE
        if self._threads > 2:  # fewer are kept busy by one row
            together, _ = self._timed([warmup_row()] * 2)
            self._side_by_side = self._threads if together * GAIN < 2 * alone else 1
        log.info(
            "measured device=cpu precision=%s threads=%d side_by_side=%d real_time_factor=%.3f",
            self.precision,
            self._threads,
            self._side_by_side,
            self.real_time_factor,
        )

    def _timed(self, rows: Sequence[Row]) -> tuple[float, int]:
        """Seconds, rows side by side; and samples."""
        started = time.perf_counter()
        results = list(self._pool.map(self._speak, rows))
        return time.perf_counter() - started, sum(len(result.audio) for result in results)

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        for row in rows:
            check(row)
        spoken = [row for row in rows if row.tokens]
        several = len(spoken) > 1 and self._side_by_side > 1
        results = iter(self._pool.map(self._speak, spoken) if several else map(self._speak, spoken))
        return [next(results) if row.tokens else silence() for row in rows]

    def _speak(self, row: Row) -> Result:
        inputs, lengths = decode_inputs(self._text, row)
        long = lengths.sum() > LONG_FRAMES
        audio = self._decode.run(None, inputs, self._shrink if long else None)[0]
        return Result(audio[0].copy(), lengths.copy())

    def _session(self, path: Path) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        # Threads that wait by spinning would take the cores from the event loop, and from each other.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The arena uses freed memory again anyway. To plan that ahead takes 7 s at every start, and a plan for each
        # length of text doubles the memory.
        options.enable_mem_reuse = options.enable_mem_pattern = False
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def decode_inputs(text: onnxruntime.InferenceSession, row: Row) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """What the second graph is given, once the first has run; and the length of each token in frames."""
    style = row.style[None].astype(np.float32)
    tokens = np.array([[0, *row.tokens, 0]], np.int64)
    speed = np.array([row.speed], np.float32)
    prosody, features, durations = text.run(None, {"tokens": tokens, "style": style, "speed": speed})
    lengths: NDArray[np.int64] = durations[0]
    inputs = {
        "prosody": np.repeat(prosody, lengths, 1),
        "text": np.repeat(features, lengths, 1),
        "style": style,
        "noise": noise.sample(row.seed, int(lengths.sum()))[None],
        "semitones": np.array([row.pitch], np.float32),
    }
    return inputs, lengths


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
