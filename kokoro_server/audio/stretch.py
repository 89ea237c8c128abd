"""Speech made faster or slower at the same pitch: for the speeds that the model itself says badly.

The signal is cut into overlapping windows, which are laid out nearer together or further apart (WSOLA: overlap-add by
waveform similarity). Each window may be moved by a little, to where it continues the one before it best: then periods
of the voice meet periods, and nothing buzzes.

Where speech is made faster, not all of it is shortened alike, as no speaker does that: pauses give most, then sounds
that stay as they are, and least the changes from sound to sound, by which words are understood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from kokoro_server.audio.join import speech_bounds
from kokoro_server.engine.protocol import Audio

WINDOW = 480  # samples: 20 ms, two periods of a low voice
HOP = WINDOW // 2  # of the output: each sample is heard in two windows
REACH = 240  # samples by which a window may be moved either way: a period of a low voice
COARSE = 4  # places are compared at every fourth sample first, on a signal of as many fewer samples
TINY = 1e-9  # power, that silence may be divided by
HANN: Audio = (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(WINDOW) + 0.5) / WINDOW)).astype(np.float32)

# Speech is judged in steps, by its level in bands whose width grows with their frequency.
STEP = 240  # samples: 10 ms
BINS = 512  # samples of a spectrum: a window and zeros
BANDS = np.unique(np.geomspace(4, 190, 21).astype(int))  # the first bin of each, and the end: 190 Hz to 9 kHz
BAND_FLOOR = 10 ** (-50 / 10)  # of the loudest band's power; changes below are not heard
PAUSE_LEVEL = 10 ** (-40 / 10)  # of the loudest step's power; steps below are silent
PAUSE_STEPS = 8  # silent steps that make a pause; fewer may be the closure of a p or t
PAUSE_EDGE = 2  # silent steps at either end of a pause that belong to the sounds beside it
# The share of time that a step keeps, in proportion: 1 for the usual change of sound, more for more. Measured by what
# Whisper understands at speeds 3 and 4; with equal shares it misses two to five times as many words.
CHANGE_WEIGHT = 0.8
LEAST, MOST = 0.4, 2.2

Places = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Warp:
    """Sample `made[i]` of a sound is sample `heard[i]` of the stretched one; between these, in proportion."""

    made: Places
    heard: Places

    @classmethod
    def even(cls, samples: int, length: int) -> Warp:
        return cls(np.array([0.0, samples]), np.array([0.0, length]))

    def heard_at(self, samples: NDArray[np.int64]) -> Places:
        return np.interp(samples, self.made, self.heard)

    def made_at(self, samples: NDArray[np.int64]) -> Places:
        return np.interp(samples, self.heard, self.made)


def stretched(audio: Audio, factor: float) -> tuple[Audio, Warp]:
    """Speech, `factor` times as long, to the sample. A second takes some milliseconds: call this in a thread."""
    length = round(len(audio) * factor)
    warp = Warp.even(len(audio), length) if factor >= 1 else _shortening(audio, length)
    return _laid_out(audio, warp, length) if length else np.zeros(0, np.float32), warp


def _shortening(audio: Audio, length: int) -> Warp:
    """Where each step of speech is to be heard. From its begin to its end, and around them, all is in proportion."""
    begin, end = (place // STEP for place in speech_bounds(audio))
    if end <= begin or not length:
        return Warp.even(len(audio), length)
    factor = length / len(audio)
    shares = _shares(audio[begin * STEP : end * STEP], factor)
    lengths = _filled(shares, factor * len(shares)) * STEP
    heard = np.concatenate([np.zeros(1), begin * STEP * factor + np.concatenate([np.zeros(1), np.cumsum(lengths)])])
    made = np.concatenate([np.zeros(1), np.arange(begin, end + 1) * STEP])
    return Warp(np.append(made, len(audio)), np.append(heard, length))


def _filled(shares: Places, total: float) -> Places:
    """Numbers in proportion to `shares` that add up to `total`, which is less than their count. But none is above 1:
    nothing becomes slower.
    """
    full = np.zeros(len(shares), np.bool_)
    while True:
        lengths: Places = np.where(full, 1.0, shares * ((total - full.sum()) / shares[~full].sum()))
        over = lengths > 1
        if not over.any():
            return lengths
        full |= over


def _shares(speech: Audio, factor: float) -> Places:
    """How much of its time each step of some speech keeps, in proportion."""
    steps = len(speech) // STEP
    windows = sliding_window_view(np.pad(speech, (WINDOW - STEP) // 2), WINDOW)[::STEP][:steps] * HANN
    spectrum = np.square(np.abs(np.fft.rfft(windows, BINS)))
    bands = np.add.reduceat(spectrum[:, : BANDS[-1]], BANDS[:-1], axis=1) / np.diff(BANDS)
    levels = np.log(np.maximum(bands, BAND_FLOOR * bands.max() + TINY))  # (steps, bands)
    around = np.pad(levels, ((1, 1), (0, 0)), mode="edge")
    change = _smoothed(np.abs(around[2:] - around[:-2]).mean(1))
    power = spectrum.sum(1)
    pause = _pauses(power < power.max() * PAUSE_LEVEL)
    change /= change[~pause].mean() + TINY
    shares = np.clip(1 + CHANGE_WEIGHT * (change - 1), LEAST, MOST)
    return np.where(pause, factor, shares)


def _smoothed(values: Places) -> Places:
    padded = np.pad(values, 1, mode="edge")
    return (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4


def _pauses(silent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The steps inside long silences."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], silent, [False]]).astype(np.int8)))
    pause = np.zeros(len(silent), np.bool_)
    for begin, end in zip(turns[::2], turns[1::2], strict=True):
        if end - begin >= PAUSE_STEPS:
            pause[begin + PAUSE_EDGE : end - PAUSE_EDGE] = True
    return pause


def _laid_out(audio: Audio, warp: Warp, length: int) -> Audio:
    """The signal, window by window, each near the place that the warp has for it."""
    wanted = np.round(warp.made_at(np.arange(math.ceil(length / HOP) + 1) * HOP)).astype(np.int64)
    margin = WINDOW + REACH + COARSE  # of silence around the signal, so that no place falls outside
    padded = np.pad(audio, (margin, 2 * margin))
    windows = sliding_window_view(padded, WINDOW)[_places(padded, wanted + (margin - HOP))] * HANN
    joined: Audio = windows[1:, :HOP] + windows[:-1, HOP:]
    return joined.reshape(-1)[:length]


def _places(padded: Audio, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each window is taken from: near the place `wanted` for it, where it continues the one before it best."""
    thin = padded[: len(padded) // COARSE * COARSE].reshape(-1, COARSE).mean(1)
    power, thin_power = _window_power(padded, WINDOW), _window_power(thin, WINDOW // COARSE)
    starts = wanted.copy()
    for number in range(1, len(wanted)):
        following = int(starts[number - 1]) + HOP  # from there it would go on as it was said
        if abs(following - int(wanted[number])) <= REACH:
            starts[number] = following
            continue
        first = (int(wanted[number]) - REACH) // COARSE
        near = first + _best(thin, thin_power, following // COARSE, first, 2 * REACH // COARSE, WINDOW // COARSE)
        first = near * COARSE - COARSE
        starts[number] = first + _best(padded, power, following, first, 2 * COARSE, WINDOW)
    return starts


def _best(signal: Audio, power: Places, like: int, first: int, more: int, width: int) -> int:
    """Which of the windows of `width` at `first` and up to `more` samples later is most like the one at `like`."""
    fit = np.correlate(signal[first : first + more + width], signal[like : like + width])
    return int(np.argmax(fit / power[first : first + more + 1]))


def _window_power(signal: Audio, width: int) -> Places:
    """The root of the power of each window, by which it is made comparable to others."""
    total = np.concatenate([np.zeros(1), np.cumsum(np.square(signal, dtype=np.float64))])
    power: Places = np.maximum(total[width:] - total[:-width], 0)
    return np.sqrt(power + TINY)
