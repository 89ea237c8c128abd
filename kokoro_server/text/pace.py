"""How long pieces may be so that a stream starts early and never stalls: arithmetic on the engine's speed.

While one piece plays, the next one is synthesized. A machine that is faster than playback gains time with every piece,
so each piece may be longer than the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from kokoro_server.engine.rows import model_speed
from kokoro_server.engine.speed import EARLY_LEVEL, LEVELS, level

# At speed 1, fitted to six voices: n phonemes make OVERHEAD_SECONDS + n · SECONDS_PER_PHONEME of audio. Most of the
# overhead is silence that is cut where pieces are joined.
SECONDS_PER_PHONEME = 0.0573
OVERHEAD_SECONDS = 0.82
MIN_GAP_SECONDS = 0.08  # the part of the overhead that remains in the shortest gap between two pieces
LEAD_SECONDS = 0.30  # the overhead before the first piece, where nothing is cut

TARGET_START_SECONDS = 1.0  # in which the first piece should be synthesized
MAX_START_SECONDS = 6.0  # the longest wait for a start that keeps a slower machine from stalling later
FAST_FACTOR = LEVELS[0]  # a machine with this real-time factor or a lower one needs no plan
# Phonemes are not all alike, and the machine has other things to do: pieces are planned to be ready earlier by this
# factor. On a slow machine pieces are longer, and the differences between phonemes even out.
MARGIN = 1.15
SLOW_MARGIN = 1.05
SLOW_FACTOR = 0.6  # a machine with a higher real-time factor is slow
FILL_RATIO = 0.75  # a piece has this share of the phonemes that it may have: it ends with a phrase
SHARE_AFTER_START = 0.9  # of the first piece's synthesis, on an engine that speaks early
MIN_PHONEMES = 12  # less is hardly a word
ORDINARY_PHONEMES = 60  # a sentence of ordinary length; shorter pieces must grow
MIN_GROWTH = 1.15  # how fast they must grow, from piece to piece
STEADY_PHONEMES = 100  # from here on the model speaks at its best, and pieces need not grow
LONG_PHONEMES = 200  # for machines that outrun playback only with such pieces, which spare the overhead
MAX_STALLED_PHONEMES = 150  # of a piece that the listener has to wait for
ENDLESS_PHONEMES = 10_000  # ten minutes


@dataclass(frozen=True)
class Pace:
    """The speed of an engine, in seconds of synthesis for a second of audio, and the rate of speaking."""

    real_time_factor: float
    speed: float = 1.0
    speaks_early: bool = False  # whether a first piece is heard while most of it is made

    @classmethod
    def from_measurement(cls, real_time_factor: float, speaks_early: bool = False) -> Pace:
        return cls(level(real_time_factor), speaks_early=speaks_early)

    @property
    def needs_plan(self) -> bool:
        """Whether streams are cut by a plan."""
        return self.real_time_factor > FAST_FACTOR

    @property
    def margin(self) -> float:
        return SLOW_MARGIN if self.real_time_factor > SLOW_FACTOR else MARGIN

    @property
    def share_after_start(self) -> float:
        """The part of the first piece's synthesis that is done while it is heard."""
        early = self.speaks_early and self.real_time_factor <= EARLY_LEVEL and self._model_speed == self.speed
        return SHARE_AFTER_START if early else 0.0

    @property
    def _model_speed(self) -> float:
        return model_speed(self.speed)

    def synthesis_seconds(self, phonemes: int) -> float:
        """How long it takes to synthesize a piece."""
        return self.real_time_factor * (OVERHEAD_SECONDS + SECONDS_PER_PHONEME * phonemes) / self._model_speed

    def playback_seconds(self, phonemes: int) -> float:
        """How long a piece plays, at the least."""
        return (MIN_GAP_SECONDS + SECONDS_PER_PHONEME * phonemes) / self.speed

    def phonemes_within(self, seconds: float) -> int:
        """The length of a piece that is synthesized in this time."""
        return int((seconds * self._model_speed / self.real_time_factor - OVERHEAD_SECONDS) / SECONDS_PER_PHONEME)

    def gains_time(self, phonemes: int) -> bool:
        """Whether a piece plays longer than it takes to synthesize, with the margin."""
        return self.playback_seconds(phonemes) > self.margin * self.synthesis_seconds(phonemes)

    @property
    def sufficient_phonemes(self) -> int:
        """The length from which a piece need not be longer."""
        return STEADY_PHONEMES if self.gains_time(STEADY_PHONEMES) else LONG_PHONEMES

    def start(self, phonemes: int = ENDLESS_PHONEMES) -> StreamStart:
        """How a stream of about this many phonemes begins."""
        return _start(self, min(-(-phonemes // 20) * 20, ENDLESS_PHONEMES))


@dataclass(frozen=True)
class StreamStart:
    """How a stream begins: with a piece of at most `max_phonemes`.

    `late`: the piece must be longer than TARGET_START_SECONDS allows. `keeps_up`: no later piece has to be waited for.
    Where that would need a later start than MAX_START_SECONDS, or is impossible, stalls are accepted.
    """

    max_phonemes: int
    late: bool
    keeps_up: bool


@dataclass
class PlaybackPlan:
    """The plan of one text so far: how long its pieces play, and how long the pieces after the first take to make."""

    pace: Pace
    playback_seconds: float = 0.0
    synthesis_seconds: float = 0.0
    started: bool = False

    def max_phonemes(self) -> int:
        """The most phonemes that the next piece may have to be ready when those before it have played."""
        seconds = self.playback_seconds / self.pace.margin - self.synthesis_seconds
        return max(self.pace.phonemes_within(seconds), MIN_PHONEMES)

    def add(self, phonemes: int) -> None:
        """Adds a piece. The synthesis of the first one counts as far as it comes after the beginning of playback."""
        if self.started:
            self.synthesis_seconds += self.pace.synthesis_seconds(phonemes)
        else:
            self.started = True
            self.synthesis_seconds += self.pace.share_after_start * self.pace.synthesis_seconds(phonemes)
            self.playback_seconds += LEAD_SECONDS / self.pace.speed
        self.playback_seconds += self.pace.playback_seconds(phonemes)

    def add_pause(self, seconds: float) -> None:
        """Adds a pause between two pieces."""
        self.playback_seconds += seconds

    def min_phonemes(self, limit: int, left: int) -> int:
        """The fewest phonemes, up to `limit`, that the next piece must have for all that is `left` to be in time."""

        def is_enough(phonemes: int) -> bool:
            supposed = replace(self)
            supposed.add(phonemes)
            return supposed.keeps_up(phonemes, left - phonemes)

        return _smallest(is_enough, min(MIN_PHONEMES, limit), limit) or limit

    def keeps_up(self, previous: int, left: int) -> bool:
        """Whether pieces of all that is `left` can be in time, and soon not short, though none is as long as it may be.

        `previous` is how many phonemes the piece before them might have had.
        """
        plan, limit, sufficient = replace(self), self.max_phonemes(), self.pace.sufficient_phonemes
        while limit < left:
            if limit < min(ORDINARY_PHONEMES, previous * MIN_GROWTH):
                return False
            if limit >= sufficient and self.pace.gains_time(sufficient):
                return True
            piece = min(int(limit * FILL_RATIO), sufficient)
            plan.add(piece)
            left -= piece
            previous, limit = limit, plan.max_phonemes()
        return True


@lru_cache(1000)
def _start(pace: Pace, phonemes: int) -> StreamStart:
    """The longest first piece that is in time, or else the shortest one after which all later pieces are in time."""

    def is_enough(limit: int) -> bool:
        piece = phonemes if phonemes <= limit else int(limit * FILL_RATIO)
        plan = PlaybackPlan(pace)
        plan.add(piece)
        return plan.keeps_up(limit, phonemes - piece)

    low = max(pace.phonemes_within(TARGET_START_SECONDS), MIN_PHONEMES)
    if is_enough(low):
        return StreamStart(low, late=False, keeps_up=True)
    high = max(pace.phonemes_within(MAX_START_SECONDS), low)
    smallest = _smallest(is_enough, low, high)
    return StreamStart(smallest or high, late=True, keeps_up=smallest is not None)


def _smallest(is_enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number from `low` to `high` that is enough, if `high` is. Every number above it is enough too."""
    if is_enough(low):
        return low
    if not is_enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
