"""How audio leaves a GPU: one block for a batch, copied in one go. Each row's line has all that is wanted of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Audio, Pcm16

FULL_SCALE = 32767.0
TAIL = 4  # floats behind the samples of a line: the peak, and what aligns the next line


def width(frames: int) -> int:
    """Floats in a line: samples, the same in 16 bits, the tail."""
    return _ends(frames)[1] + TAIL


def fill(block: Tensor, audio: Tensor, frames: Tensor) -> None:
    """`audio` is (rows, samples) with junk beyond each row's `frames`; `block` is (rows, width)."""
    samples, end = _ends(audio.shape[1] // SAMPLES_PER_FRAME)
    sound = torch.arange(samples, device=audio.device) < frames[:, None] * SAMPLES_PER_FRAME
    audio = torch.where(sound, audio.float(), 0.0)
    block[:, :samples] = audio
    block[:, samples:end].view(torch.int16).copy_((audio * FULL_SCALE).clamp_(-FULL_SCALE, FULL_SCALE).round_())
    block[:, end] = audio.abs().amax(1)


def rows(block: NDArray[np.float32], counts: Sequence[int]) -> list[tuple[Audio, Pcm16]]:
    """What `fill` left, row by row, each of so many frames. Views, but for the peaks."""
    samples, end = _ends((block.shape[1] - TAIL) // (SAMPLES_PER_FRAME * 3 // 2))
    ready, peaks = block[:, samples:end].view(np.int16), block[:, end].tolist()
    lengths = [count * SAMPLES_PER_FRAME for count in counts]
    return [(block[i, :length], Pcm16(ready[i, :length], peaks[i])) for i, length in enumerate(lengths)]


def _ends(frames: int) -> tuple[int, int]:
    samples = frames * SAMPLES_PER_FRAME
    return samples, samples + samples // 2
