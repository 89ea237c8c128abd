"""What can be wrong with a forward pass: the error it raised, or the audio it returned. Imports no torch."""

from __future__ import annotations

import math
from enum import Enum, auto

from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Result, Row
from kokoro_server.errors import EngineError, EngineUnavailable, KokoroError

# CUDA errors after which every further call in the process fails.
STICKY = (
    "illegal memory access",
    "illegal instruction",
    "device-side assert",
    "unspecified launch failure",
    "misaligned address",
    "invalid address space",
    "invalid program counter",
    "hardware stack error",
    "uncorrectable ecc error",
    "the launch timed out",
)
OUT_OF_MEMORY = ("out of memory", "failed to allocate memory", "alloc_failed")


class Fault(Enum):
    ROW = auto()  # a row, or the batch it was in
    MEMORY = auto()  # too much at once
    DEVICE = auto()  # poisoned: only a new process helps


def classify(error: Exception) -> Fault:
    """Told by class name and message, so that no engine's library need be imported here."""
    message = str(error).lower()
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"OutOfMemoryError", "MemoryError"} or any(text in message for text in OUT_OF_MEMORY):
        return Fault.MEMORY
    if any(text in message for text in STICKY):
        return Fault.DEVICE
    return Fault.ROW


def row_error(error: Exception, row: Row) -> KokoroError:
    """The caller's answer for a row that failed alone. Keeps no traceback: its frames hold the engine's tensors."""
    if isinstance(error, KokoroError):
        return error.with_traceback(None)
    if classify(error) is Fault.MEMORY:
        return EngineUnavailable(
            f"not enough memory for a text of {len(row.tokens)} phonemes; try again later or send less at once",
            retry_after=1.0,
        )
    return EngineError(f"the engine failed on this text: {type(error).__name__}: {error}")


def audio_fault(row: Row, result: Result) -> str | None:
    """What is wrong with a row's audio, if anything: its length, a NaN or infinity, silence where there is text."""
    frames = int(result.durations.sum())
    if len(result.durations) != len(row.tokens) + 2 or result.audio.shape != (frames * SAMPLES_PER_FRAME,):
        return f"{result.audio.shape} samples and {len(result.durations)} durations for {len(row.tokens)} phonemes"
    if not frames:
        return "no samples" if row.tokens else None
    # The extremes show NaN, infinity and silence; a dot product would too, but starts BLAS threads beside the engine's.
    low, high = float(result.audio.min()), float(result.audio.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return "samples that are not finite"
    if low == high == 0.0 and row.tokens:
        return "silence"
    return None
