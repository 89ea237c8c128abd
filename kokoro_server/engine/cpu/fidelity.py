"""How near int8 is to single precision, for weights on which it has not been measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.cpu.engine import OnnxEngine
from kokoro_server.engine.protocol import STYLE_DIM, Audio, Row

# Of what another seed of the noise changes. For Kokoro v1.0 it is 0.24 to 0.29 (three seeds of rows, AVX512 VNNI).
ALLOWED = 0.6
ROWS = 3
TOKENS = 24
WINDOW = 600  # samples: a frame
FLOOR = 1e-3  # of the loudest part of the spectrum, below which nothing is compared


def distance(int8: Path, fp32: Path, vocabulary: Mapping[str, int]) -> float:
    """The difference of their spectra, as a multiple of that between two seeds. Takes some seconds."""
    quick, exact = OnnxEngine(int8), OnnxEngine(fp32)
    by_int8, by_seed = list[float](), list[float]()
    for row, other_seed in _rows(vocabulary):
        plain = exact.synthesize([row])[0].audio
        by_int8.append(_difference(plain, quick.synthesize([row])[0].audio))
        by_seed.append(_difference(plain, exact.synthesize([other_seed])[0].audio))
    found = float(np.mean(by_int8)) / max(float(np.mean(by_seed)), 1e-6)
    return found if np.isfinite(found) else np.inf


def _rows(vocabulary: Mapping[str, int]) -> list[tuple[Row, Row]]:
    """Phonemes at random, in voices at random: what the model makes of them need not be speech."""
    random, rows = np.random.default_rng(0), list[tuple[Row, Row]]()
    ids = sorted(number for symbol, number in vocabulary.items() if symbol.isalpha()) or sorted(vocabulary.values())
    for _ in range(ROWS):
        tokens = tuple(random.choice(ids, TOKENS).tolist())
        style = (0.15 * random.standard_normal(STYLE_DIM)).astype(np.float32)
        rows.append((Row(tokens, style, seed=0), Row(tokens, style, seed=1)))
    return rows


def _difference(one: Audio, other: Audio) -> float:
    """The mean difference of their spectra in dB; infinite unless both are sound of one length."""
    if len(one) != len(other) or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    first, second = _spectrum(one), _spectrum(other)
    floor = FLOOR * max(float(first.max(initial=0.0)), 1e-9)
    return float(np.abs(20 * np.log10((first + floor) / (second + floor))).mean())


def _spectrum(audio: Audio) -> NDArray[np.float32]:
    frames = audio[: len(audio) // WINDOW * WINDOW].reshape(-1, WINDOW)
    magnitudes: NDArray[np.float32] = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1)).astype(np.float32)
    return magnitudes
