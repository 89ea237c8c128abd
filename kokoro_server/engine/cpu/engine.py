"""The engine on onnxruntime, for CPUs. It runs each row alone through the graphs of `build`. Needs no torch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from kokoro_server.engine.cpu import decode
from kokoro_server.engine.cpu.early import early_windows
from kokoro_server.engine.cpu.sessions import session
from kokoro_server.engine.protocol import MAX_TOKENS, EngineLimits, OnBeginning, Result, Row
from kokoro_server.engine.rows import at_speed, check, empty_result, noise, warmup_row
from kokoro_server.engine.speed import PASSES, TimedPass, present_factor, real_time_factor, timed
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.machine import thread_count

log = logging.getLogger(__name__)

# Peak memory of one frame (25 ms of one row) beyond the weights: 0.52 to 0.56 MB in int8, 0.58 to 0.62 in fp32.
BYTES_PER_FRAME = 650_000
BATCH_BYTES = 4 * 1024**3  # the memory that all rows at work may take
LONG_PIECE_FRAMES = 1_020  # of 400 phonemes, the longest piece of a text
MAX_SIDE_BY_SIDE = BATCH_BYTES // (LONG_PIECE_FRAMES * BYTES_PER_FRAME)  # rows
MIN_SPEEDUP = 1.1  # rows run side by side where that is at least this much faster


class OnnxEngine:
    """`protocol.Engine`. No two rows share a tensor, so a row's result does not depend on its neighbours.

    The rows of a call run in order, and all wait for the last: give a call one row.
    """

    device = "cpu"

    def __init__(self, folder: Path, threads: int | None = None, use_kernels: bool = True) -> None:
        """`folder` is what `build.build` wrote; `threads` defaults to the number of cores.

        Without `use_kernels`, onnxruntime runs everything.
        """
        self._threads = threads or thread_count()
        self._text = session(folder / "text.onnx", self._threads)
        slow_kernels = Condition(Reason.CPU_KERNELS)
        self._decode = decode.load(folder, self._threads, slow_kernels, use_kernels)
        self.precision, self.kernels = self._decode.precision, self._decode.kernels
        self.conditions = (slow_kernels,)
        self.real_time_factor: float | None = None
        self.present_factor: float | None = None
        self._side_by_side = 1

    @property
    def limits(self) -> EngineLimits:
        return EngineLimits(MAX_TOKENS, 1, BATCH_BYTES // BYTES_PER_FRAME, parallel_calls=self._side_by_side)

    def warmup(self) -> None:
        self._speak(warmup_row())

    def measure(self) -> None:
        """Measure the speed of one row alone, and whether rows run faster side by side.

        A short row shows as much as a long one.
        """
        passes = [self._timed([warmup_row()]) for _ in range(PASSES)]
        self.real_time_factor, self.present_factor = real_time_factor(passes, self._threads), present_factor(passes)
        if self._threads > 2:  # one row keeps fewer threads busy
            alone, together = min(each.seconds for each in passes), self._timed([warmup_row()] * 2).seconds
            faster = together * MIN_SPEEDUP < 2 * alone
            self._side_by_side = min(self._threads, MAX_SIDE_BY_SIDE) if faster else 1
        log.info(
            "measured device=cpu precision=%s threads=%d side_by_side=%d real_time_factor=%.3f",
            self.precision, self._threads, self._side_by_side, self.real_time_factor,
        )  # fmt: skip

    def _timed(self, rows: Sequence[Row]) -> TimedPass:
        """What the rows take side by side."""
        with ThreadPoolExecutor(len(rows)) as pool:
            return timed(lambda: sum(len(result.audio) for result in pool.map(self._speak, rows)))

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        for row in rows:
            check(row)
        spoken = [row for row in rows if row.tokens]
        results = map(self._speak, spoken)
        return [next(results) if row.tokens else empty_result() for row in rows]

    @property
    def speaks_early(self) -> bool:
        return self._decode.has_beginnings

    def synthesize_early(self, row: Row, on_beginning: OnBeginning) -> Result:
        check(row)
        if not row.tokens:
            return empty_result()
        inputs, lengths = decode_inputs(self._text, row)
        windows = early_windows(lengths, self.real_time_factor)
        if not (windows and self.speaks_early):
            return Result(self._decode(inputs), lengths.copy())
        for audio in self._decode.in_parts(inputs, windows):
            result = Result(audio, lengths.copy())
            if not result.whole:
                on_beginning(result)
        return result

    def _speak(self, row: Row) -> Result:
        inputs, lengths = decode_inputs(self._text, row)
        return Result(self._decode(inputs), lengths.copy())


def decode_inputs(text: onnxruntime.InferenceSession, row: Row) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Run the text graph. Returns the inputs of the decode graph and the length of each token in frames."""
    style = row.style[None].astype(np.float32)
    tokens = np.array([[0, *row.tokens, 0]], np.int64)
    normal = np.ones(1, np.float32)
    prosody, features, durations = text.run(None, {"tokens": tokens, "style": style, "speed": normal})
    lengths = at_speed(durations[0], row.speed)
    inputs = {
        "prosody": np.repeat(prosody, lengths, 1),
        "text": np.repeat(features, lengths, 1),
        "style": style,
        "noise": noise(row.seed, int(lengths.sum()))[None],
        "semitones": np.array([row.pitch], np.float32),
    }
    return inputs, lengths
