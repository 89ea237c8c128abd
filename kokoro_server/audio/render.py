"""From the model's samples to the bytes that are sent: resampled, levelled, encoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np

from kokoro_server.audio.encode import Output, encode, encode_plain, encoder, wrap
from kokoro_server.audio.level import CEILING, Level, louder
from kokoro_server.audio.resample import Resampler
from kokoro_server.audio.wav import Samples
from kokoro_server.engine.protocol import SAMPLE_RATE, Pcm16


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a client wants done to the samples."""

    output: Output = field(default_factory=Output)
    volume: float = 0.0  # dB

    @property
    def plain(self) -> bool:
        """Whether samples stay what they are: no other rate, no encoder."""
        return self.output.format in ("wav", "pcm") and self.output.sample_rate == SAMPLE_RATE

    def takes(self, pcm16: Pcm16 | None) -> TypeGuard[Pcm16]:
        """Whether the samples are wanted as the engine made them."""
        return (
            pcm16 is not None
            and self.plain
            and self.output.sample_format == "pcm_s16le"
            and not self.volume
            and pcm16.peak <= CEILING
        )


# Samples that take less to turn into wav or pcm than to hand to a thread and get back: ten seconds, half a millisecond.
QUICK = 10 * SAMPLE_RATE


def render(audio: Samples, rendering: Rendering) -> bytes:
    """A whole file. Takes a while for long audio: call it in a thread."""
    chain = _Chain(rendering)
    return encode(np.concatenate([chain.write(audio), chain.finish()]), rendering.output)


def render_quickly(
    audio: Samples, rendering: Rendering, *, pcm16: Pcm16 | None = None, streamed: bool = False
) -> bytes | None:
    """The same, if it takes no longer than an event loop can bear. `streamed`: what a Renderer would give in all."""
    if not rendering.plain or not 0 < len(audio) <= QUICK:
        return None
    if rendering.takes(pcm16):
        return wrap(pcm16.samples.data, rendering.output, streamed=streamed)
    made = louder(audio, rendering.volume)
    return None if made is None else encode_plain(made, rendering.output, within=True, streamed=streamed)


class Renderer:
    """The same bit by bit: bytes as they are ready. `close` must be called, finished or not."""

    def __init__(self, rendering: Rendering) -> None:
        self.plain = rendering.plain
        self._chain = _Chain(rendering)
        self._encoder = encoder(rendering.output)

    def write(self, audio: Samples) -> bytes:
        return self._encoder.write(self._chain.write(audio))

    def write_quickly(self, audio: Samples, *, last: bool = False) -> bytes | None:
        """`write`, and with the `last` samples `finish`, if that takes no longer than an event loop can bear."""
        if not self.plain or not 0 < len(audio) <= QUICK:
            return None
        made = self._chain.level.write_quickly(audio)
        if made is None:
            return None
        if last:
            made = np.concatenate([made, self._chain.level.finish()])
        return self._encoder.write(made)

    def finish(self) -> bytes:
        return self._encoder.write(self._chain.finish()) + self._encoder.finish()

    def close(self) -> None:
        self._encoder.close()


class _Chain:
    def __init__(self, rendering: Rendering) -> None:
        self._resampler = Resampler(rendering.output.sample_rate)
        self.level = Level(rendering.volume, rendering.output.sample_rate)

    def write(self, audio: Samples) -> Samples:
        return self.level.write(self._resampler.write(audio))

    def finish(self) -> Samples:
        return np.concatenate([self.level.write(self._resampler.finish()), self.level.finish()])
