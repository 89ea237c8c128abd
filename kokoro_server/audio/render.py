"""From the model's samples to the bytes that are sent: resampled, levelled, encoded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kokoro_server.audio.encode import Output, encode, encoder
from kokoro_server.audio.level import Level
from kokoro_server.audio.resample import Resampler
from kokoro_server.audio.wav import Samples


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a client wants done to the samples."""

    output: Output = field(default_factory=Output)
    volume: float = 0.0  # dB


def render(audio: Samples, rendering: Rendering) -> bytes:
    """A whole file. Takes a while for long audio: call it in a thread."""
    chain = _Chain(rendering)
    return encode(np.concatenate([chain.write(audio), chain.finish()]), rendering.output)


class Renderer:
    """The same bit by bit: bytes as they are ready. `close` must be called, finished or not."""

    def __init__(self, rendering: Rendering) -> None:
        self._chain = _Chain(rendering)
        self._encoder = encoder(rendering.output)

    def write(self, audio: Samples) -> bytes:
        return self._encoder.write(self._chain.write(audio))

    def finish(self) -> bytes:
        return self._encoder.write(self._chain.finish()) + self._encoder.finish()

    def close(self) -> None:
        self._encoder.close()


class _Chain:
    def __init__(self, rendering: Rendering) -> None:
        self._resampler = Resampler(rendering.output.sample_rate)
        self._level = Level(rendering.volume, rendering.output.sample_rate)

    def write(self, audio: Samples) -> Samples:
        return self._level.write(self._resampler.write(audio))

    def finish(self) -> Samples:
        return np.concatenate([self._level.write(self._resampler.finish()), self._level.finish()])
