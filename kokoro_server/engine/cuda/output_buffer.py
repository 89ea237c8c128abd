"""The layout in which audio leaves a GPU: one buffer for a batch, copied by one call.

A line of the buffer holds a row's audio, the same in 16-bit samples, and its peak.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Audio, Pcm16

FULL_SCALE = 32767.0
TAIL = 4  # floats behind the samples of a line: the peak, and what aligns the next line


def line_width(frames: int) -> int:
    """The number of floats in a line."""
    return _ends(frames)[1] + TAIL


def pack(buffer: Tensor, audio: Tensor, frames: Tensor) -> None:
    """`audio` is (rows, samples) with junk beyond each row's `frames`; `buffer` is (rows, line width)."""
    samples, end = _ends(audio.shape[1] // SAMPLES_PER_FRAME)
    mask = torch.arange(samples, device=audio.device) < frames[:, None] * SAMPLES_PER_FRAME
    audio = torch.where(mask, audio.float(), 0.0)
    buffer[:, :samples] = audio
    buffer[:, samples:end].view(torch.int16).copy_((audio * FULL_SCALE).clamp_(-FULL_SCALE, FULL_SCALE).round_())
    buffer[:, end] = audio.abs().amax(1)


def unpack(buffer: NDArray[np.float32], counts: Sequence[int]) -> list[tuple[Audio, Pcm16]]:
    """Read what `pack` wrote, row by row, as views. `counts` are the rows' frames."""
    samples, end = _ends((buffer.shape[1] - TAIL) // (SAMPLES_PER_FRAME * 3 // 2))
    pcm16, peaks = buffer[:, samples:end].view(np.int16), buffer[:, end].tolist()
    lengths = [count * SAMPLES_PER_FRAME for count in counts]
    return [(buffer[i, :length], Pcm16(pcm16[i, :length], peaks[i])) for i, length in enumerate(lengths)]


def _ends(frames: int) -> tuple[int, int]:
    """Where a line's samples end, and where its 16-bit samples do."""
    samples = frames * SAMPLES_PER_FRAME
    return samples, samples + samples // 2
