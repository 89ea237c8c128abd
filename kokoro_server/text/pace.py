"""How long pieces may be so that a stream starts early and never stalls: arithmetic on the engine's speed.

While a piece is heard the next one is made. A machine that makes speech faster than it is spoken gains time with every
piece, so each may be longer than the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

# At speed 1, fitted to six voices: a piece of n phonemes is OVERHEAD + n · PHONEME seconds of audio. Most of the
# overhead is silence that is cut where pieces are joined.
PHONEME = 0.0573
OVERHEAD = 0.82
KEPT = 0.08  # heard of it, in the shortest gap
LEAD = 0.30  # and before the first piece, where nothing is cut

START = 1.0  # seconds in which the first piece should be made
LATER_START = 1.15  # in which it may be, to spare a short sentence a pause before its last word
LATEST_START = 6.0  # the longest wait for a start that keeps a slower machine from stalling later
FAST = 0.05  # a machine with this factor or a lower one needs no plan
# Phonemes are not all alike, and the machine has other things to do: pieces are planned to be ready earlier by this.
# On a slow machine they are longer, and what differs evens out.
MARGIN = 1.15
SLOW_MARGIN = 1.05
SLOW = 0.6
FILLED = 0.75  # of the phonemes that a piece may have, it has so many: it ends with a word or a clause
FEWEST = 12  # phonemes: less is hardly a word
ROOMY = 60  # phonemes: a sentence of ordinary length; shorter pieces must grow
GROWTH = 1.15  # at least so fast
STEADY = 100  # phonemes: from here on the model speaks at its best, and pieces need not grow
LONG = 200  # where only such pieces are made faster than they are heard, which spares the overhead
BEARABLE = 150  # phonemes of a piece that has to be waited for, at most
ENDLESS = 10_000  # phonemes: ten minutes

# A measured factor is rounded up to one of these, so that the same text is cut alike, and sounds alike, after a
# restart that measured a little more or less.
STEPS = (
    *(0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    *(1.0, 1.1, 1.25, 1.5, 2.0, 3.0),
)


@dataclass(frozen=True)
class Pace:
    """For an engine that takes `factor` seconds to make a second of audio, and a rate of speaking."""

    factor: float
    speed: float = 1.0

    @classmethod
    def measured(cls, factor: float) -> Pace:
        return cls(next((step for step in STEPS if factor <= step), factor))

    @property
    def matters(self) -> bool:
        """Whether streams need a plan."""
        return self.factor > FAST

    @property
    def margin(self) -> float:
        return SLOW_MARGIN if self.factor > SLOW else MARGIN

    def cost(self, phonemes: int) -> float:
        """Seconds to make a piece."""
        return self.factor * (OVERHEAD + PHONEME * phonemes) / self.speed

    def heard(self, phonemes: int) -> float:
        """Seconds that a piece is heard, at the least."""
        return (KEPT + PHONEME * phonemes) / self.speed

    def affordable(self, seconds: float) -> int:
        """Phonemes of a piece that is made in this time."""
        return int((seconds * self.speed / self.factor - OVERHEAD) / PHONEME)

    def gains(self, phonemes: int) -> bool:
        """Whether a piece of so many is heard longer than it takes to make, with the margin."""
        return self.heard(phonemes) > self.margin * self.cost(phonemes)

    @property
    def enough(self) -> int:
        """Phonemes from which a piece need not be longer."""
        return STEADY if self.gains(STEADY) else LONG

    def start(self, phonemes: int = ENDLESS) -> Start:
        """For a text of about so many."""
        return _start(self, min(-(-phonemes // 20) * 20, ENDLESS))


@dataclass(frozen=True)
class Start:
    """How a stream begins: with a piece of at most so many phonemes.

    `late` tells that it must be a longer one than START asks for, and `keeps_up` that no later piece will then be
    waited for. Where that would take more than LATEST_START, or cannot be at all, stalls are put up with.
    """

    most: int
    late: bool
    keeps_up: bool


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
        return max(self.pace.affordable(self.heard / self.pace.margin - self.made), FEWEST)

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

    def least(self, most: int, left: int) -> int:
        """The fewest phonemes that the next piece, which has at most `most`, must have for all `left` to be in time."""

        def lasts(phonemes: int) -> bool:
            supposed = replace(self)
            supposed.add(phonemes)
            return supposed.holds(phonemes, left - phonemes)

        return _smallest(lasts, min(FEWEST, most), most) or most

    def holds(self, before: int, left: int) -> bool:
        """Whether pieces of all that is `left` can be in time, and soon not short, though none is as long as it may be.

        The piece `before` might have had so many phonemes.
        """
        plan, most, enough = replace(self), self.most(), self.pace.enough
        while most < left:
            if most < min(ROOMY, before * GROWTH):
                return False
            if most >= enough and self.pace.gains(enough):
                return True
            piece = min(int(most * FILLED), enough)
            plan.add(piece)
            left -= piece
            before, most = most, plan.most()
        return True


@lru_cache(1000)
def _start(pace: Pace, phonemes: int) -> Start:
    """The longest first piece that is made in time; or the shortest one that lets the others be ready in time."""

    def lasts(most: int) -> bool:
        piece = phonemes if phonemes <= most else int(most * FILLED)
        plan = Plan(pace)
        plan.add(piece)
        return plan.holds(most, phonemes - piece)

    low = max(pace.affordable(START), FEWEST)
    if lasts(low):
        return Start(low, late=False, keeps_up=True)
    high = max(pace.affordable(LATEST_START), low)
    most = _smallest(lasts, low, high)
    return Start(most or high, late=True, keeps_up=most is not None)


def _smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """From `low` to `high`, if it holds for `high`, and for all from the smallest on."""
    if holds(low):
        return low
    if not holds(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
