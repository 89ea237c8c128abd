"""Volume, with a limiter that turns loud places down a little before they come instead of clipping them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kokoro_server.audio.wav import Samples
from kokoro_server.engine.protocol import SAMPLE_RATE

MIN_DB = -60.0
MAX_DB = 20.0

CEILING = 0.999  # of full scale; no sample that comes out is larger
LOOK_AHEAD = 0.005  # seconds, about, over which the gain goes down before a loud place
RELEASE = 75.0  # dB per second at which it comes back: 6 dB in 80 ms

Values = NDArray[np.float64]


class Level:
    """Samples in order in, those that are ready out, `volume` dB louder. The same however the input is cut.

    Where nothing would pass the ceiling the samples are only multiplied, so at 0 dB they come out as they went in.
    It belongs after resampling, whose filter can raise a peak.
    """

    def __init__(self, volume: float = 0.0, sample_rate: int = SAMPLE_RATE) -> None:
        self._factor = 10 ** (volume / 20)
        self._steps = [2**power for power in range(round(math.log2(LOOK_AHEAD / 2 * sample_rate)))]
        self._ahead = 2 * sum(self._steps)  # samples
        self._release = RELEASE / 20 * math.log(10) / sample_rate  # nepers per sample
        # Samples that still wait for what follows them. At first these are silence, never given out, in which the gain
        # can go down if the signal begins too loud.
        self._pending: Samples = np.zeros(self._ahead, np.float32)
        self._recent: Values = np.ones(self._ahead)  # the last gains, before smoothing
        self._held = -math.inf  # the greatest excess so far, plus the release up to its place
        self._place = -self._ahead  # of the first pending sample
        self._calm = True  # nothing before the pending samples turns them down

    def write(self, audio: Samples) -> Samples:
        if not len(audio):
            return audio
        made = self.write_quickly(audio)
        return self._limited(audio) if made is None else made

    def write_quickly(self, audio: Samples) -> Samples | None:
        """The same where samples need only be multiplied, which is much less work; else nothing is written."""
        silent, joined = self._joined(audio)
        if not (self._calm and _peak(joined) * self._factor <= CEILING):
            return None
        self._place += len(audio)
        self._held = max(self._held, (self._place - 1) * self._release)
        self._pending = joined[len(audio) :].copy()
        return _multiplied(joined[silent : len(audio)], self._factor)

    def finish(self) -> Samples:
        """The last samples; nothing may be written after."""
        return self.write(np.zeros(self._ahead, np.float32))

    def _limited(self, audio: Samples) -> Samples:
        silent, joined = self._joined(audio)
        louder = joined.astype(np.float64) * self._factor
        made = (louder[: len(audio)] * self._gain(louder)).astype(np.float32)
        self._pending = joined[len(audio) :].copy()
        return made[silent:]

    def _joined(self, audio: Samples) -> tuple[int, Samples]:
        """What is pending and `audio`; before them, how many samples of silence are still to be left out."""
        return max(0, -self._place), np.concatenate([self._pending, audio])

    def _gain(self, louder: Values) -> Values:
        """For all but the last look-ahead of the samples, the factor that keeps each of them under the ceiling."""
        excess = np.log(np.maximum(np.abs(louder) / CEILING, 1.0))
        depth = self._released(_running_max(excess, self._ahead + 1))
        gain = np.concatenate([self._recent, np.exp(-depth)])
        self._recent = gain[len(depth) :]
        self._calm = depth[-1] == 0 and self._recent.min() == 1
        # A mean of gains, each of which is low enough for every sample of its look-ahead, is low enough too.
        for step in self._steps * 2:
            gain = (gain[step:] + gain[:-step]) / 2
        return gain

    def _released(self, peaks: Values) -> Values:
        """`peaks`, each followed by a slope down instead of a fall."""
        slope: Values = (self._place + np.arange(len(peaks))) * self._release
        held = np.maximum.accumulate(np.maximum(peaks + slope, self._held))
        self._held = float(held[-1])
        self._place += len(peaks)
        return held - slope


def louder(audio: Samples, volume: float) -> Samples | None:
    """The whole of a signal, `volume` dB louder, where nothing would pass the ceiling: it need only be multiplied."""
    factor = 10 ** (volume / 20)
    return _multiplied(audio, factor) if _peak(audio) * factor <= CEILING else None


def _multiplied(audio: Samples, factor: float) -> Samples:
    return audio if factor == 1 else (audio.astype(np.float64) * factor).astype(np.float32)


def _peak(audio: Samples) -> float:
    """NaN if there is one among the samples."""
    return max(float(audio.max()), -float(audio.min()))


def _running_max(values: Values, width: int) -> Values:
    """The greatest of each `width` neighbours, from windows that double until they are wide enough."""
    have = 1
    while have < width:
        step = min(have, width - have)
        values = np.maximum(values[step:], values[:-step])
        have += step
    return values
