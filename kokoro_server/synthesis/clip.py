"""A whole utterance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio, Pcm16
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.phonemes import PhonemeTiming
from kokoro_server.synthesis.utterance import Segment
from kokoro_server.text.script import Script


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """An utterance, and what it took: of several pieces, the longest wait and the largest batch."""

    sound: Sound | None  # None if its audio has gone to `Overflow`
    samples: int
    voice: str
    script: Script  # what has been said, whatever has become of its voices since
    segments: Sequence[Segment]
    text_ms: float
    queue_ms: float
    inference_ms: float
    batch_size: int

    @property
    def words(self) -> tuple[Timing, ...]:
        return tuple(word for segment in self.segments for word in segment.words)

    @property
    def phonemes(self) -> tuple[PhonemeTiming, ...]:
        """The phonemes of `words`."""
        found, words = list[PhonemeTiming](), 0
        for segment in self.segments:
            found += (replace(phoneme, word=phoneme.word + words) for phoneme in segment.phonemes)
            words += len(segment.words)
        return tuple(found)

    @property
    def audio(self) -> Audio:
        assert self.sound is not None
        return self.sound.audio

    @property
    def pcm16(self) -> Pcm16 | None:
        assert self.sound is not None
        return self.sound.pcm16

    @property
    def seconds(self) -> float:
        return self.samples / SAMPLE_RATE

    @property
    def skipped(self) -> int:
        """Characters that were left out, as they cannot be said."""
        return sum(segment.skipped for segment in self.segments)

    @property
    def is_silent(self) -> bool:
        """Whether the text had nothing to say, and a moment of silence stands in."""
        return any(segment.stands_in for segment in self.segments)
