"""Classifies the errors and the bad audio of forward passes, and counts crashes. Imports no torch."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto

import numpy as np

from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Audio, Result, Row
from kokoro_server.engine.sticky import sticky_error
from kokoro_server.errors import EngineError, EngineUnavailable, KokoroError

MAX_CRASHES = 3  # within CRASH_WINDOW: another restart would not help
CRASH_WINDOW = 60.0  # seconds
OUT_OF_MEMORY = ("out of memory", "failed to allocate memory", "alloc_failed")


class Fault(Enum):
    ROW = auto()  # of a row, or of its batch as a whole, which is retried in halves
    MEMORY = auto()  # out of memory: the batch was too large
    DEVICE = auto()  # the device is poisoned: only a new process helps


def classify(error: Exception) -> Fault:
    """Goes by the error's class name and message, so that no engine's library need be imported here."""
    message = str(error).lower()
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"OutOfMemoryError", "MemoryError"} or any(text in message for text in OUT_OF_MEMORY):
        return Fault.MEMORY
    if sticky_error(error):
        return Fault.DEVICE
    return Fault.ROW


def row_error(error: Exception, row: Row) -> KokoroError:
    """The answer for a row that failed alone. It keeps no traceback, whose frames would hold the engine's tensors."""
    if isinstance(error, KokoroError):
        return error.with_traceback(None)
    if classify(error) is Fault.MEMORY:
        return EngineUnavailable(
            f"not enough memory for a text of {len(row.tokens)} phonemes; try again later or send less at once",
            retry_after=1.0,
        )
    # Not the error's own words, which may name files of this machine. The runner has logged them.
    return EngineError(f"the engine failed on this text ({type(error).__name__}); the server's log has the details")


def audio_faults(rows: Sequence[Row], results: Sequence[Result]) -> list[str | None]:
    """The fault of each row's audio, or None: a wrong length, a NaN or infinity, silence instead of speech."""
    faults = [_wrong_length(row, result) for row, result in zip(rows, results, strict=True)]
    checked = [i for i, fault in enumerate(faults) if fault is None and len(results[i].audio)]
    for i, peak in zip(checked, _peaks([results[i] for i in checked]), strict=True):
        # The peak shows NaN, infinity and silence.
        if not math.isfinite(peak):
            faults[i] = "samples that are not finite"
        elif peak == 0.0 and rows[i].tokens:
            faults[i] = "silence"
    return faults


def _wrong_length(row: Row, result: Result) -> str | None:
    frames = int(result.durations.sum())
    if len(result.durations) != len(row.tokens) + 2 or result.audio.shape != (frames * SAMPLES_PER_FRAME,):
        return f"{result.audio.shape} samples and {len(result.durations)} durations for {len(row.tokens)} phonemes"
    return "no samples" if row.tokens and not frames else None


def _peaks(results: Sequence[Result]) -> list[float]:
    """The largest absolute value of each row's samples; NaN if one of them is. No row is empty."""
    known = [result.pcm16.peak for result in results if result.pcm16 is not None]
    return known if len(known) == len(results) else _computed_peaks([result.audio for result in results])


def _computed_peaks(rows: Sequence[Audio]) -> list[float]:
    """`_peaks` from the samples.

    Rows of one buffer are reduced in one call. Every call of numpy on many samples releases the interpreter lock and
    must then wait for it; a hundred such waits take longer than the device does for its next batch.
    """
    bounds = _bounds(rows)
    if bounds is None:
        return [max(float(row.max()), -float(row.min())) for row in rows]
    flat: Audio = rows[0].base.reshape(-1)  # type: ignore[union-attr]
    inner = bounds if bounds[-1] < len(flat) else bounds[:-1]
    lows, highs = np.minimum.reduceat(flat, inner)[::2], np.maximum.reduceat(flat, inner)[::2]
    peaks: list[float] = np.maximum(highs, -lows).tolist()
    return peaks


def _bounds(rows: Sequence[Audio]) -> list[int] | None:
    """The start and end of each row in the one array that all are views of, in order; None if they are not."""
    base = rows[0].base if rows else None
    if not isinstance(base, np.ndarray) or not base.flags.c_contiguous or base.dtype != rows[0].dtype:
        return None
    bounds: list[int] = []
    for row in rows:
        start = (row.ctypes.data - base.ctypes.data) // base.itemsize
        if row.base is not base or not row.flags.c_contiguous or (bounds and start < bounds[-1]):
            return None
        bounds += (start, start + len(row))
    return bounds


class CrashHistory:
    """When something crashed, and whether it does so too often."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MAX_CRASHES)

    def add(self, now: float) -> None:
        self._times.append(now)

    def recent(self, now: float) -> bool:
        return any(now - crash < CRASH_WINDOW for crash in self._times)

    @property
    def too_many(self) -> bool:
        return len(self._times) == MAX_CRASHES and self._times[-1] - self._times[0] < CRASH_WINDOW
