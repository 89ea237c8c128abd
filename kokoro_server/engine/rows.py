"""The work on rows that all engines share: checks, noise, times. Imports no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, STYLE_DIM, Result, Row
from kokoro_server.errors import InvalidInput

MIN_SPEED, MAX_SPEED = 0.25, 4.0
SLOWEST_CLEAR, FASTEST_CLEAR = 0.7, 1.4  # the model speaks well at these speeds and between them
MAX_PITCH = 24.0  # semitones up or down
WARMUP_PHONEMES = "hˈI."  # a second of audio


def model_speed(speed: float) -> float:
    """The speed at which the model should speak for audio of `speed`: that, or else its own pace, to be stretched.

    At a slow speed it stutters; at a fast one it slurs, and becomes no faster, as each phoneme takes a frame at least.
    """
    return speed if SLOWEST_CLEAR <= speed <= FASTEST_CLEAR else 1.0


def at_speed(durations: NDArray[np.int64], speed: float) -> NDArray[np.int64]:
    """`model.kokoro.at_speed` for one row, without torch."""
    number = np.arange(1, len(durations) + 1)
    exact = np.cumsum(durations) / np.float64(np.float32(speed))
    ends = np.maximum.accumulate(np.maximum(np.round(exact).astype(np.int64) - number, 0)) + number
    lengths: NDArray[np.int64] = np.diff(ends, prepend=0)
    return lengths


def noise(seed: int, frames: int) -> NDArray[np.float32]:
    """Gaussian noise that excites the harmonic source. A longer sample begins with the shorter one of its seed."""
    generator = np.random.Generator(np.random.PCG64(seed % 2**64))
    return generator.standard_normal(frames * SAMPLES_PER_FRAME, dtype=np.float32)


def token_starts(durations: NDArray[np.int64]) -> NDArray[np.int64]:
    """The frame at which each token of `Result.durations` begins; the first and last entries are the pads."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(durations)[:-1]])


def empty_result() -> Result:
    """The result of a row without tokens: no audio, durations of 0."""
    return Result(np.zeros(0, np.float32), np.zeros(2, np.int64))


def warmup_row(tokens: int | None = None) -> Row:
    """For a model that has `tokens` ids; by default Kokoro v1.0."""
    ids = vocab.tokenize(WARMUP_PHONEMES)
    return Row(tuple(each % tokens for each in ids) if tokens else ids, np.zeros(STYLE_DIM, np.float32))


def check(row: Row, tokens: int | None = None) -> None:
    """Raise `InvalidInput` for a row that the model cannot take. For `tokens` see `warmup_row`."""
    known = tokens or vocab.size()
    if len(row.tokens) > MAX_TOKENS:
        raise InvalidInput(
            f"{len(row.tokens)} phonemes in one piece; the model takes at most {MAX_TOKENS}: split the text",
            field="tokens",
        )
    if row.tokens and not 0 <= min(row.tokens) <= max(row.tokens) < known:
        raise InvalidInput(f"token ids must lie between 0 and {known - 1}", field="tokens")
    if not MIN_SPEED <= row.speed <= MAX_SPEED:
        raise InvalidInput(f"speed is {row.speed}; allowed is {MIN_SPEED} to {MAX_SPEED}", field="speed")
    if not -MAX_PITCH <= row.pitch <= MAX_PITCH:
        raise InvalidInput(f"pitch is {row.pitch} semitones; allowed is ±{MAX_PITCH:g}", field="pitch")
    if row.style.shape != (STYLE_DIM,) or not np.isfinite(row.style).all():
        raise InvalidInput(f"style must be {STYLE_DIM} finite numbers; its shape is {row.style.shape}", field="style")
