"""Loudness by ITU-R BS.1770-4 and EBU R 128: perceived loudness, and true peaks between the samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kokoro_server.audio.limiter import Values, running_max
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio

HOP = SAMPLE_RATE // 10  # samples: blocks of 400 ms begin every 100 ms
HOPS_PER_BLOCK = 4
ABSOLUTE_GATE = -70.0  # LUFS; quieter blocks do not count
RELATIVE_GATE = -10.0  # LU, to the loudness of the blocks that pass the absolute gate
OFFSET = -0.691  # dB, by which a sine of 1 kHz at 0 dBFS has -3.01 LUFS

TAPS = SAMPLE_RATE // 4  # of the weighting's impulse response: by then it is 200 dB down
FFT_SIZE = 1 << 16
BLOCK = FFT_SIZE - TAPS + 1  # samples that are filtered at once

OVERSAMPLING = 4
PEAK_TAPS = 12  # on either side, of the interpolation between samples
MANY_PLACES = 8  # if more than one in this many samples is high, peaks are looked for everywhere
LIMIT_WINDOW = SAMPLE_RATE // 50  # samples on either side of a peak over which the gain goes down and comes back


@dataclass(frozen=True, slots=True)
class _Biquad:
    b: tuple[float, float, float]
    a: tuple[float, float]  # without the leading 1

    def response(self, audio: Values) -> Values:
        b, (a1, a2) = self.b, self.a
        made = np.zeros_like(audio)
        x1 = x2 = y1 = y2 = 0.0
        for index, x in enumerate(audio.tolist()):
            y = b[0] * x + b[1] * x1 + b[2] * x2 - a1 * y1 - a2 * y2
            made[index] = y
            x1, x2, y1, y2 = x, x1, y, y1
        return made


def _shelf() -> _Biquad:
    """The filter of the head: about 4 dB more above 1.7 kHz. The standard's coefficients derive from these numbers."""
    gain, q = 10 ** (3.999843853973347 / 20), 0.7071752369554196
    k = math.tan(math.pi * 1681.974450955533 / SAMPLE_RATE)
    middle = gain**0.4996667741545416
    norm = 1 + k / q + k * k
    b = ((gain + middle * k / q + k * k) / norm, 2 * (k * k - gain) / norm, (gain - middle * k / q + k * k) / norm)
    return _Biquad(b, (2 * (k * k - 1) / norm, (1 - k / q + k * k) / norm))


def _high_pass() -> _Biquad:
    k = math.tan(math.pi * 38.13547087602444 / SAMPLE_RATE)
    norm = 1 + k / 0.5003270373238773 + k * k
    return _Biquad((1.0, -2.0, 1.0), (2 * (k * k - 1) / norm, (1 - k / 0.5003270373238773 + k * k) / norm))


class LoudnessMeter:
    """Takes the samples of a programme in order; `integrated` is its loudness so far."""

    def __init__(self) -> None:
        impulse = np.zeros(TAPS)
        impulse[0] = 1.0
        self._weighting = np.fft.rfft(_high_pass().response(_shelf().response(impulse)), FFT_SIZE)
        self._before: Values = np.zeros(TAPS - 1)  # the samples that the filter still feels
        self._open: Values = np.zeros(0)  # weighted samples of the hop that is not full
        self._hops: list[Values] = []  # their mean squares

    def add(self, audio: Audio) -> None:
        for start in range(0, len(audio), BLOCK):
            self._add(audio[start : start + BLOCK].astype(np.float64))

    def _add(self, audio: Values) -> None:
        joined = np.concatenate([self._before, audio])
        weighted = np.fft.irfft(np.fft.rfft(joined, FFT_SIZE) * self._weighting, FFT_SIZE)
        self._before = joined[-(TAPS - 1) :]
        ready = np.concatenate([self._open, weighted[TAPS - 1 : len(joined)]])
        whole = len(ready) // HOP * HOP
        self._hops.append(np.square(ready[:whole]).reshape(-1, HOP).mean(axis=1))
        self._open = ready[whole:]

    @property
    def integrated(self) -> float:
        """LUFS; minus infinity where nothing is loud enough to count."""
        hops = np.concatenate(self._hops) if self._hops else np.zeros(0)
        if len(hops) < HOPS_PER_BLOCK:
            return -math.inf
        blocks = np.convolve(hops, np.ones(HOPS_PER_BLOCK) / HOPS_PER_BLOCK, "valid")
        blocks = blocks[blocks > _power(ABSOLUTE_GATE)]
        if not len(blocks):
            return -math.inf
        return _lufs(float(blocks[blocks > _power(_lufs(float(blocks.mean())) + RELATIVE_GATE)].mean()))


def _lufs(power: float) -> float:
    return OFFSET + 10 * math.log10(power)


def _power(lufs: float) -> float:
    return float(10 ** ((lufs - OFFSET) / 10))


def _interpolation() -> Values:
    """Weights of the samples around each point between two samples. (OVERSAMPLING - 1, 2 * PEAK_TAPS)"""
    places = np.arange(-PEAK_TAPS + 1, PEAK_TAPS + 1)
    between = np.arange(1, OVERSAMPLING)[:, None] / OVERSAMPLING
    window = np.cos(np.pi / 2 * (places - between) / PEAK_TAPS) ** 2
    return np.asarray(np.sinc(places - between) * window, np.float64)


INTERPOLATION = _interpolation()


def true_peaks(audio: Values) -> Values:
    """For each sample, the greatest magnitude from it to the next one."""
    peaks = np.abs(audio)
    for weights in INTERPOLATION:
        between = np.convolve(audio, weights[::-1], "full")[PEAK_TAPS : PEAK_TAPS + len(audio)]
        np.maximum(peaks, np.abs(between), out=peaks)
    return peaks


def _high_peaks(audio: Values, ceiling: float) -> Values:
    """As `true_peaks`, but between samples only where one could pass the ceiling: speech has few such places."""
    peaks = np.abs(audio)
    # Between samples a signal is seldom more than twice as large as at them.
    high = peaks * 2 > ceiling
    high[:-1] |= high[1:]
    places = np.flatnonzero(high)
    if len(places) > len(audio) // MANY_PLACES:
        return true_peaks(audio)
    padded = np.pad(audio, (PEAK_TAPS - 1, PEAK_TAPS))
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * PEAK_TAPS)[places]
    # Not with `@`: each thread of BLAS would keep the memory of its largest product, which is megabytes, for good.
    between = np.abs(np.einsum("ij,kj->ik", around, INTERPOLATION)).max(axis=1, initial=0.0)
    peaks[places] = np.maximum(peaks[places], between)
    return peaks


def levelled(audio: Audio, gain: float, ceiling: float) -> Audio:
    """The audio times `gain`, smoothly reduced where its true peaks would pass the ceiling."""
    louder = audio.astype(np.float64) * gain
    peaks = _high_peaks(louder, ceiling)
    if peaks.max(initial=0.0) <= ceiling:
        return louder.astype(np.float32)
    peaks = np.pad(np.maximum(peaks, np.roll(peaks, 1)), 2 * LIMIT_WINDOW)
    reduction = ceiling / np.maximum(running_max(peaks, 2 * LIMIT_WINDOW + 1), ceiling)
    # A mean of gains, each of which is low enough for every sample around it, is low enough too.
    sums = np.cumsum(np.pad(reduction, (1, 0)))
    smooth = (sums[2 * LIMIT_WINDOW + 1 :] - sums[: -2 * LIMIT_WINDOW - 1]) / (2 * LIMIT_WINDOW + 1)
    limited: Audio = (louder * smooth).astype(np.float32)
    return limited
