"""Estimates learned from past batches: the length of a row, the time of a batch, the memory that it fits in."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Row

FRAME_SECONDS = SAMPLES_PER_FRAME / SAMPLE_RATE  # of audio
PRIOR_FRAMES = ((20.0, 70.0), (200.0, 520.0))  # (tokens, frames): 2.5 frames a token and 20 for the pads
DECAY = 0.98  # forgetting factor: the weight of all past points shrinks by this with each new one
MIN_FORWARDS = 8  # forward passes before the fitted fixed cost of a batch is trusted
USUAL_FRAMES = 120  # of a row, before the first forward pass: three seconds of audio
RECENT_FORWARDS = 3  # whose times are the present pace
CAP_RECOVERY = 1.005  # per batch: about 140 batches from a halved cap back to where memory ran out
RECENT_ROWS = 9  # whose median is the present speed: four rows beside other load do not change it
MEASURED_ROWS = 3  # the weight of the measurement at the start, in rows


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """The size and time of a forward pass that returned."""

    rows: int
    frames: int  # of all rows, without padding
    padded: int  # rows × longest row
    cost: float  # in frames, as `EngineLimits.cost`
    seconds: float


class LineFit:
    """y ≈ slope·x + intercept: least squares with exponential forgetting. Slope and intercept are never negative."""

    def __init__(self, points: Iterable[tuple[float, float]] = (), *, decay: float = DECAY) -> None:
        self.slope = self.intercept = 0.0
        self._decay = decay
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        for x, y in points:
            self.add(x, y)

    def __call__(self, x: float) -> float:
        return self.slope * x + self.intercept

    def add(self, x: float, y: float) -> None:
        decay = self._decay
        self._n = decay * self._n + 1.0
        self._x = decay * self._x + x
        self._y = decay * self._y + y
        self._xx = decay * self._xx + x * x
        self._xy = decay * self._xy + x * y
        self.slope, self.intercept = self._solve()

    def _solve(self) -> tuple[float, float]:
        spread = self._n * self._xx - self._x**2
        through_origin = self._xy / self._xx if self._xx else 0.0, 0.0
        if spread <= 1e-9 * self._n * self._xx:
            return through_origin
        slope = (self._n * self._xy - self._x * self._y) / spread
        if slope < 0:
            return 0.0, self._y / self._n
        intercept = (self._y - slope * self._x) / self._n
        return (slope, intercept) if intercept >= 0 else through_origin


class FrameEstimate:
    """Predicts the length of a row in frames from its token count and speed."""

    def __init__(self) -> None:
        self._fit = LineFit(PRIOR_FRAMES, decay=0.99)

    def predict(self, row: Row) -> int:
        return max(1, round(self._fit(len(row.tokens)) / row.speed))

    def learn(self, row: Row, frames: int) -> None:
        self._fit.add(len(row.tokens), frames * row.speed)


class CostModel:
    """Predicts the seconds of a batch from its `EngineLimits.cost`: a fixed part (overhead), and a part per frame.

    That is what batches took on average. `slowdown` says how much longer they take now.
    """

    def __init__(self, seconds_per_frame: float = 0.0) -> None:
        """`seconds_per_frame` stands in until the first forward pass, where it was measured."""
        self._fit = LineFit()
        self._fit.slope = seconds_per_frame
        self._recent: deque[ForwardPass] = deque(maxlen=RECENT_FORWARDS)
        self._slowdown = 1.0  # of those
        self._forwards = 0
        self._rows = self._frames = self._padded = self._cost = 0.0  # decayed sums over recent forward passes

    def learn(self, forward: ForwardPass) -> None:
        self._fit.add(forward.cost, forward.seconds)
        self._recent.append(forward)
        self._slowdown = self._against_average(self._recent)
        self._forwards += 1
        self._rows = DECAY * self._rows + forward.rows
        self._frames = DECAY * self._frames + forward.frames
        self._padded = DECAY * self._padded + forward.padded
        self._cost = DECAY * self._cost + forward.cost

    @property
    def overhead_frames(self) -> float:
        """The fixed cost of a batch, in frames; 0 while it is not known."""
        if self._forwards < MIN_FORWARDS or not self._fit.slope:
            return 0.0
        return self._fit.intercept / self._fit.slope

    @property
    def overhead_seconds(self) -> float:
        """The fixed cost of a batch, in seconds; 0 while it is not known."""
        return self._fit.intercept if self._forwards >= MIN_FORWARDS else 0.0

    @property
    def row_frames(self) -> float:
        """The usual length of a row."""
        return self._frames / self._rows if self._rows else USUAL_FRAMES

    def batch_seconds(self, cost: float) -> float:
        return self._fit(cost)

    def slowdown(self, running_cost: float = 0.0, elapsed: float = 0.0) -> float:
        """How many times longer than on average the last batches took, by what else the machine does.

        A batch that runs now, for `elapsed` seconds, counts as soon as it takes longer than on average.
        """
        if elapsed <= self._fit(running_cost):
            return self._slowdown
        running = ForwardPass(rows=1, frames=0, padded=0, cost=running_cost, seconds=elapsed)
        return self._against_average(deque([*self._recent, running], RECENT_FORWARDS))

    def _against_average(self, forwards: Collection[ForwardPass]) -> float:
        average = sum(self._fit(forward.cost) for forward in forwards)
        return sum(forward.seconds for forward in forwards) / average if average else 1.0

    def frames_within(self, seconds: float) -> float:
        """The cost, in frames, of a batch that is predicted to take `seconds`; infinite while that is not known."""
        return max(0.0, seconds - self._fit.intercept) / self._fit.slope if self._fit.slope else math.inf

    def backlog_seconds(self, *, rows: int, frames: float, unknown_rows: int, max_rows: int, budget: float) -> float:
        """Time to work off `rows` of `frames` in all, and `unknown_rows` more of the usual length.

        A batch holds at most `max_rows` rows and `budget` padded frames.
        """
        if not self._forwards:
            return self._fit.slope * (frames + unknown_rows * self.row_frames)
        ratio = (frames + unknown_rows * self.row_frames) / self._frames  # to the recent forward passes
        batches = max(math.ceil((rows + unknown_rows) / max_rows), math.ceil(ratio * self._padded / budget))
        return self._fit.slope * ratio * self._cost + self._fit.intercept * batches


class RealTimeFactor:
    """Seconds of computing for a second of audio, of a row that runs alone: as measured first, then as rows show.

    Other load on the machine comes and goes, and may have slowed the measurement at the start.
    """

    def __init__(self, measured: float) -> None:
        self._recent = deque([measured] * MEASURED_ROWS, maxlen=RECENT_ROWS)

    @property
    def value(self) -> float:
        return statistics.median_low(self._recent)

    def learn(self, forward: ForwardPass, *, alone: bool) -> None:
        """`alone`: no other row of this server ran meanwhile."""
        if forward.rows != 1 or not forward.frames:
            return
        factor = forward.seconds / (forward.frames * FRAME_SECONDS)
        if alone or factor < self.value:  # beside other rows it may be slow because of them, but not fast
            self._recent.append(factor)


class LearnedCap:
    """The padded frames of one batch that are known to fit: halved when memory runs out, slowly raised again."""

    def __init__(self, full: int) -> None:
        self._full = float(full)
        self._cap = float(full)

    @property
    def frames(self) -> int:
        return int(self._cap)

    @property
    def lowered(self) -> bool:
        return self._cap < self._full

    def lower(self, padded_frames: int) -> None:
        """A batch of this size did not fit."""
        self._cap = max(1.0, min(self._cap, padded_frames / 2))

    def recover(self) -> None:
        self._cap = min(self._full, self._cap * CAP_RECOVERY)
