"""How long pieces may be so that a stream starts early and never stalls: arithmetic on the engine's speed.

While a piece is heard the next one is made. A machine that makes speech faster than it is spoken gains time with every
piece, so each may be longer than the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

# At speed 1, fitted to six voices: a piece of n phonemes is OVERHEAD + n · PHONEME seconds of audio. Most of the
# overhead is silence that is cut where pieces are joined.
PHONEME = 0.0573
OVERHEAD = 0.82
KEPT = 0.08  # heard of it, in the shortest gap
LEAD = 0.30  # and before the first piece, where nothing is cut

START = 1.5  # seconds in which the first piece should be made: at twice the pace of speech, an ordinary sentence
LATEST_START = 3.0  # the longest wait for a start that keeps a slower machine from stalling later
# Phonemes are not all alike, and the machine has other things to do: pieces are planned to be ready earlier by this.
MARGIN = 1.15
FILLED = 0.75  # of the phonemes that a piece may have, it has so many: it ends with a word or a clause
FEWEST = 12  # phonemes: less is hardly a word
STEADY = 100  # phonemes: from here on the model speaks at its best, and pieces need not be planned

# A measured factor is rounded up to one of these, so that the same text is cut alike, and sounds alike, after a
# restart that measured a little more or less.
STEPS = (0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Pace:
    """For an engine that takes `factor` seconds to make a second of audio, and a rate of speaking."""

    factor: float
    speed: float = 1.0

    @classmethod
    def measured(cls, factor: float) -> Pace:
        return cls(next((step for step in STEPS if factor <= step), factor))

    def cost(self, phonemes: int) -> float:
        """Seconds to make a piece."""
        return self.factor * (OVERHEAD + PHONEME * phonemes) / self.speed

    def heard(self, phonemes: int) -> float:
        """Seconds that a piece is heard, at the least."""
        return (KEPT + PHONEME * phonemes) / self.speed

    def affordable(self, seconds: float) -> int:
        """Phonemes of a piece that is made in this time."""
        return int((seconds * self.speed / self.factor - OVERHEAD) / PHONEME)

    @property
    def keeps_up(self) -> bool:
        """Whether a stream can be planned that never stalls: up to a factor of about 0.6. Else plans are of no use."""
        return _start(self) is not None

    @property
    def in_time(self) -> int:
        """Phonemes of a first piece that is made within START, if that can be."""
        return max(self.affordable(START), FEWEST)

    @property
    def starts_late(self) -> bool:
        """Whether it needs a long first piece to keep up."""
        return self.first > self.in_time

    @property
    def first(self) -> int:
        """The most phonemes that the first piece should have."""
        return _start(self) or self.in_time


@dataclass
class Plan:
    """What has been planned of one text: how much of it will have been heard, and made, when the next piece is due."""

    pace: Pace
    heard: float = 0.0  # seconds
    made: float = 0.0
    begun: bool = False

    def most(self, after: int = 0) -> int:
        """The most phonemes that the next piece may have to be ready when the ones before it have been heard.

        `after` supposes one more piece before it, of so many phonemes.
        """
        if after:
            supposed = replace(self)
            supposed.add(after)
            return supposed.most()
        return max(self.pace.affordable(self.heard / MARGIN - self.made), FEWEST)

    def add(self, phonemes: int) -> None:
        """A piece of so many has been decided on. The time to make the first is not heard, but waited for."""
        if self.begun:
            self.made += self.pace.cost(phonemes)
        else:
            self.begun = True
            self.heard += LEAD / self.pace.speed
        self.heard += self.pace.heard(phonemes)

    def rest(self, seconds: float) -> None:
        """A pause between two pieces."""
        self.heard += seconds


@lru_cache(1000)
def _start(pace: Pace) -> int | None:
    """The longest first piece that is made in time, or a longer one if only that lets the others grow; None if none."""
    phonemes = pace.in_time
    while not _grows(Plan(pace), phonemes):
        phonemes += 1
        if pace.cost(phonemes) > LATEST_START:
            return None
    return phonemes


def _grows(plan: Plan, phonemes: int) -> bool:
    """Whether each piece may be longer than the one before, though none is as long as it may be."""
    while phonemes < STEADY:
        plan.add(int(phonemes * FILLED))
        if plan.most() <= phonemes:
            return False
        phonemes = plan.most()
    return True
