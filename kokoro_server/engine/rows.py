"""What every engine does with its rows, whatever runs the model. Imports no torch."""

from __future__ import annotations

import numpy as np

from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Result, Row
from kokoro_server.errors import InvalidInput

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_PITCH = 24.0  # semitones up or down
WARMUP_PHONEMES = "hˈI."  # a second of audio


def empty_result() -> Result:
    """The result of a row without tokens."""
    return Result(np.zeros(0, np.float32), np.zeros(2, np.int64))


def warmup_row() -> Row:
    return Row(vocab.tokenize(WARMUP_PHONEMES), np.zeros(STYLE_DIM, np.float32))


def check(row: Row) -> None:
    """Raise `InvalidInput` for a row that the model cannot take."""
    if len(row.tokens) > MAX_TOKENS:
        raise InvalidInput(
            f"{len(row.tokens)} phonemes in one piece; the model takes at most {MAX_TOKENS}: split the text",
            field="tokens",
        )
    if row.tokens and not 0 <= min(row.tokens) <= max(row.tokens) < vocab.size():
        raise InvalidInput(f"token ids must lie between 0 and {vocab.size() - 1}", field="tokens")
    if not MIN_SPEED <= row.speed <= MAX_SPEED:
        raise InvalidInput(f"speed is {row.speed}; allowed is {MIN_SPEED} to {MAX_SPEED}", field="speed")
    if not -MAX_PITCH <= row.pitch <= MAX_PITCH:
        raise InvalidInput(f"pitch is {row.pitch} semitones; allowed is ±{MAX_PITCH:g}", field="pitch")
    if row.style.shape != (STYLE_DIM,) or not np.isfinite(row.style).all():
        raise InvalidInput(f"style must be {STYLE_DIM} finite numbers; its shape is {row.style.shape}", field="style")
