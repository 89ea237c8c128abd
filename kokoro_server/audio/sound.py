"""Audio together with the engine's 16-bit samples, so that both are cut and joined alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kokoro_server.audio import wav
from kokoro_server.engine.protocol import Audio, Pcm16


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """`pcm16` equals `wav.pcm16(audio)`. Its peak may be that of a longer sound which this one is cut from."""

    audio: Audio
    pcm16: Pcm16 | None = None

    @classmethod
    def silence(cls, samples: int) -> Sound:
        return cls(np.zeros(samples, np.float32), Pcm16(np.zeros(samples, np.int16), 0.0))

    @classmethod
    def join(cls, parts: Sequence[Sound]) -> Sound:
        """Several sounds as one, copied. It has 16-bit samples if all of the parts have them."""
        if len(parts) == 1:
            return parts[0]
        audio = np.concatenate([part.audio for part in parts])
        ready = [part.pcm16 for part in parts if part.pcm16 is not None]
        if len(ready) < len(parts):
            return cls(audio)
        peak = np.max([each.peak for each in ready])  # NaN if any peak is
        return cls(audio, Pcm16(np.concatenate([each.samples for each in ready]), float(peak)))

    def __len__(self) -> int:
        return len(self.audio)

    def between(self, start: int, end: int) -> Sound:
        pcm16 = self.pcm16 and Pcm16(self.pcm16.samples[start:end], self.pcm16.peak)
        return Sound(self.audio[start:end], pcm16)

    def copy(self) -> Sound:
        return Sound(self.audio.copy(), self.pcm16 and Pcm16(self.pcm16.samples.copy(), self.pcm16.peak))

    def replaced(self, audio: Audio) -> Sound:
        """A sound of other, short audio, with 16-bit samples if this sound has them."""
        if self.pcm16 is None:
            return Sound(audio)
        return Sound(audio, Pcm16(np.frombuffer(wav.pcm16(audio), np.int16), float(np.abs(audio).max(initial=0.0))))
