"""Turns the model's samples into the bytes of a response: resampled, limited, encoded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, TypeGuard

import numpy as np

from kokoro_server.audio.audible import first_audible, silent_lead
from kokoro_server.audio.encode import Output, encode_parts, encode_plain, encoder, file_encoder, with_header
from kokoro_server.audio.formats import ENCODINGS
from kokoro_server.audio.limiter import CEILING, Limiter, apply_gain
from kokoro_server.audio.resample import Resampler
from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio, Pcm16


@dataclass(frozen=True, slots=True)
class SoundStart:
    """How a file begins, in seconds."""

    audible: float | None  # from its start to the first audible sound; None if there is none
    late: float  # by which sounds come later in the file than in the audio that it was made of


@dataclass(frozen=True, slots=True)
class Rendering:
    """The format and the volume that a client asked for."""

    output: Output = field(default_factory=Output)
    volume: float = 0.0  # dB

    @property
    def plain(self) -> bool:
        """Whether the samples need neither another rate nor a codec."""
        return self.output.format in ("wav", "pcm") and self.output.sample_rate == SAMPLE_RATE

    @property
    def needs_process(self) -> bool:
        """Whether the encoder is a process of its own."""
        return self.output.format == "aac"

    def start(self, sound: Sound, *, streamed: bool = False) -> SoundStart:
        """How a file begins that begins with this sound. Its peak is looked for in its first ten seconds."""
        place = first_audible(sound.audio[:FAST_SAMPLES], sound.pcm16.peak if sound.pcm16 else None)
        late = self._late(sound.audio, streamed=streamed)
        return SoundStart(None if place is None else place / SAMPLE_RATE + late, late)

    def _late(self, audio: Audio, *, streamed: bool) -> float:
        """The part of the codec's delay that is longer than the silence which can be left out; see OnTimeEncoder."""
        encoding = ENCODINGS[self.output.format]
        delay = (encoding.stream_delay if streamed else encoding.delay) / self.output.sample_rate
        if not delay:
            return 0.0
        lead = audio[: math.ceil(delay * SAMPLE_RATE)] * np.float32(10 ** (self.volume / 20))
        return max(0.0, delay - silent_lead(lead, len(lead)) / SAMPLE_RATE)

    def accepts(self, pcm16: Pcm16 | None) -> TypeGuard[Pcm16]:
        """Whether the client can get the engine's 16-bit samples unchanged."""
        return (
            pcm16 is not None
            and self.plain
            and self.output.sample_format == "pcm_s16le"
            and not self.volume
            and pcm16.peak <= CEILING
        )


# Up to this size, turning samples into wav or pcm takes less time than a thread's round trip: ten seconds of audio in
# half a millisecond.
FAST_SAMPLES = 10 * SAMPLE_RATE
FAST_READY_SAMPLES = 60 * SAMPLE_RATE  # if the engine has made 16-bit samples, which are only copied


def render(audio: Audio, rendering: Rendering) -> list[bytes]:
    """A whole file, in parts. Long audio takes a while: call this in a thread."""
    return encode_parts(_Chain(rendering).blocks(audio), rendering.output)


def render_fast(
    audio: Audio, rendering: Rendering, *, pcm16: Pcm16 | None = None, streamed: bool = False
) -> bytes | None:
    """The whole file if that is fast enough for the event loop, else None. `streamed`: as a Renderer writes it."""
    if rendering.accepts(pcm16) and 0 < len(audio) <= FAST_READY_SAMPLES:
        return with_header(pcm16.samples.data, rendering.output, streamed=streamed)
    if not rendering.plain or not 0 < len(audio) <= FAST_SAMPLES:
        return None
    scaled = apply_gain(audio, rendering.volume)
    return None if scaled is None else encode_plain(scaled, rendering.output, in_range=True, streamed=streamed)


class Renderer:
    """Renders a stream: returns bytes as they are ready. `close` must be called, finished or not.

    With `file`, it writes a whole file there, as `render` makes it, and returns no bytes.
    """

    def __init__(self, rendering: Rendering, file: IO[bytes] | None = None) -> None:
        self.plain = rendering.plain and file is None
        self._rendering = rendering
        self._chain = _Chain(rendering)
        self._to_file = file is not None
        self._encoder = encoder(rendering.output) if file is None else file_encoder(rendering.output, file)

    def write(self, audio: Audio) -> bytes:
        return self._encoder.write(self._chain.write(audio))

    def write_fast(self, audio: Audio, *, pcm16: Pcm16 | None = None, last: bool = False) -> bytes | None:
        """`write`, and `finish` after the `last` samples, if that is fast enough for the event loop; else None."""
        if self._to_file:
            return None
        if self._rendering.accepts(pcm16) and len(audio) <= FAST_READY_SAMPLES:
            waited = self._chain.limiter.pass_on(audio)
            if waited is not None:
                end = len(audio) if last else len(audio) - self._chain.limiter.look_ahead
                return self._encoder.write(waited) + pcm16.samples[:end].tobytes()
        if not self.plain or not 0 < len(audio) <= FAST_SAMPLES:
            return None
        limited = self._chain.limiter.write_fast(audio)
        if limited is None:
            return None
        if last:
            limited = np.concatenate([limited, self._chain.limiter.finish()])
        return self._encoder.write(limited)

    def finish(self) -> bytes:
        return self._encoder.write(self._chain.finish()) + self._encoder.finish()

    def close(self) -> None:
        self._encoder.close()


class _Chain:
    def __init__(self, rendering: Rendering) -> None:
        self._resampler = Resampler(rendering.output.sample_rate)
        self.limiter = Limiter(rendering.volume, rendering.output.sample_rate)

    def write(self, audio: Audio) -> Audio:
        return self.limiter.write(self._resampler.write(audio))

    def finish(self) -> Audio:
        return np.concatenate([self.limiter.write(self._resampler.finish()), self.limiter.finish()])

    def blocks(self, audio: Audio) -> Iterator[Audio]:
        """All of `audio`, block by block, so that intermediate arrays stay small."""
        for start in range(0, len(audio), FAST_SAMPLES):
            yield self.write(audio[start : start + FAST_SAMPLES])
        yield self.finish()
