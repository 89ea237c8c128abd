"""The gains of levels.toml: how much louder or softer each of Kokoro's voices must be for all to be equally loud.

`benchmarks/levels.py` has measured them. The gain of any other pack is estimated from its styles: the gains of Kokoro's
voices are nearly linear in them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kokoro_server.voices.packs import Pack

TYPICAL = slice(40, 150)  # phonemes of an ordinary piece, whose styles count
TIMBRE = slice(0, 128)  # the part of a style that the decoder takes

_TABLE = tomllib.loads(Path(__file__).with_name("levels.toml").read_text(encoding="utf-8"))
GAINS: Mapping[str, float] = _TABLE["gains"]
_OFFSET: float = _TABLE["packs"]["offset"]
_WEIGHTS: NDArray[np.float64] = np.array(_TABLE["packs"]["weights"])
_SOFTEST, _LOUDEST = min(GAINS.values()), max(GAINS.values())


def mean_style(pack: Pack) -> NDArray[np.float64]:
    """The part of a pack that tells its loudness. (128,)"""
    mean: NDArray[np.float64] = pack[TYPICAL, TIMBRE].mean(axis=0, dtype=np.float64)
    return mean


def estimated_gain(pack: Pack) -> float:
    """dB that bring a pack to the level of all, within those of Kokoro's voices."""
    return min(max(_OFFSET + float(mean_style(pack) @ _WEIGHTS), _SOFTEST), _LOUDEST)
