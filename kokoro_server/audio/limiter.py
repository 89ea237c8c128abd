"""Volume, with a look-ahead limiter: the gain goes down shortly before loud places, so that none is clipped."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

MIN_DB = -60.0
MAX_DB = 20.0

CEILING = 0.999  # of full scale: the largest output sample
LOOK_AHEAD = 0.005  # seconds, about, over which the gain goes down before a loud place: the attack
RELEASE = 75.0  # dB per second at which the gain comes back: 6 dB in 80 ms

Values = NDArray[np.float64]


class Limiter:
    """Makes samples `volume` dB louder. Takes them in order and returns those that are ready.

    The output does not depend on how the input is divided. Samples far from the ceiling are only scaled, so at 0 dB
    they stay unchanged. The limiter belongs after resampling, whose filter can raise a peak.
    """

    def __init__(self, volume: float = 0.0, sample_rate: int = SAMPLE_RATE) -> None:
        self._factor = 10 ** (volume / 20)
        self._smoothing = [2**power for power in range(round(math.log2(LOOK_AHEAD / 2 * sample_rate)))]
        self.look_ahead = 2 * sum(self._smoothing)  # samples: the length of two passes of averaging over these steps
        self._release = RELEASE / 20 * math.log(10) / sample_rate  # nepers per sample
        # Samples that wait until the look-ahead after them is known. The first are silence, which is never returned: in
        # it the gain can go down if the signal begins too loud.
        self._pending: Audio = np.zeros(self.look_ahead, np.float32)
        self._recent: Values = np.ones(self.look_ahead)  # the last gains, before smoothing
        self._envelope = -math.inf  # the greatest excess so far, plus the release up to its position
        self._position = -self.look_ahead  # of the first pending sample
        self._unity = True  # no earlier peak lowers the gain of the pending samples

    def write(self, audio: Audio) -> Audio:
        if not len(audio):
            return audio
        made = self.write_fast(audio)
        return self._limited(audio) if made is None else made

    def write_fast(self, audio: Audio) -> Audio | None:
        """`write` for samples that need only scaling, which is much less work. Else returns None and writes nothing."""
        silent, joined = self._joined(audio)
        if not (self._unity and _peak(joined) * self._factor <= CEILING):
            return None
        self._advance(len(audio))
        self._pending = joined[len(audio) :].copy()
        return _scale(joined[silent : len(audio)], self._factor)

    def pass_on(self, audio: Audio) -> Audio | None:
        """`write` at 0 dB for samples that are known to be under the ceiling, which leaves them unchanged.

        Returns only the samples that waited before; the caller sends all of `audio` but its last `look_ahead` samples
        after them. Returns None and writes nothing if `audio` is too short or follows a loud place.
        """
        if not self._unity or len(audio) < self.look_ahead:
            return None
        waited = self._pending[max(0, -self._position) :]
        self._advance(len(audio))
        self._pending = audio[-self.look_ahead :].copy()
        return waited

    def finish(self) -> Audio:
        """The last samples; nothing may be written after."""
        return self.write(np.zeros(self.look_ahead, np.float32))

    def _advance(self, samples: int) -> None:
        """Move on past samples whose gain stays 1."""
        self._position += samples
        self._envelope = max(self._envelope, (self._position - 1) * self._release)

    def _limited(self, audio: Audio) -> Audio:
        silent, joined = self._joined(audio)
        louder = joined.astype(np.float64) * self._factor
        made = (louder[: len(audio)] * self._gain(louder)).astype(np.float32)
        self._pending = joined[len(audio) :].copy()
        return made[silent:]

    def _joined(self, audio: Audio) -> tuple[int, Audio]:
        """The number of samples of initial silence still to be dropped, and the pending samples with `audio`."""
        return max(0, -self._position), np.concatenate([self._pending, audio])

    def _gain(self, louder: Values) -> Values:
        """The gain that keeps each sample under the ceiling, for all but the last look-ahead of samples."""
        excess = np.log(np.maximum(np.abs(louder) / CEILING, 1.0))
        reduction = self._released(running_max(excess, self.look_ahead + 1))  # nepers
        gain = np.concatenate([self._recent, np.exp(-reduction)])
        self._recent = gain[len(reduction) :]
        self._unity = reduction[-1] == 0 and self._recent.min() == 1
        # A mean of gains, each of which is low enough for every sample of its look-ahead, is low enough too.
        for step in self._smoothing * 2:
            gain = (gain[step:] + gain[:-step]) / 2
        return gain

    def _released(self, peaks: Values) -> Values:
        """The envelope of `peaks`: each decays at the release rate instead of at once."""
        slope: Values = (self._position + np.arange(len(peaks))) * self._release
        envelope = np.maximum.accumulate(np.maximum(peaks + slope, self._envelope))
        self._envelope = float(envelope[-1])
        self._position += len(peaks)
        return envelope - slope


def apply_gain(audio: Audio, volume: float) -> Audio | None:
    """A whole signal, `volume` dB louder; None if a sample would pass the ceiling, which needs a limiter."""
    factor = 10 ** (volume / 20)
    return _scale(audio, factor) if _peak(audio) * factor <= CEILING else None


def scale(audio: Audio, volume: float) -> Audio:
    """A signal, `volume` dB louder, whatever its peaks become; silent at minus infinity."""
    return _scale(audio, 10 ** (volume / 20))


def _scale(audio: Audio, factor: float) -> Audio:
    return audio if factor == 1 else (audio.astype(np.float64) * factor).astype(np.float32)


def _peak(audio: Audio) -> float:
    """The largest absolute value; NaN if a sample is NaN."""
    return max(float(audio.max()), -float(audio.min()))


def running_max(values: Values, width: int) -> Values:
    """The greatest of each `width` neighbours, by windows that double until they are wide enough."""
    have = 1
    while have < width:
        step = min(have, width - have)
        values = np.maximum(values[step:], values[:-step])
        have += step
    return values
