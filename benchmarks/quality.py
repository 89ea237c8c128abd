"""How good clips sound to DNSMOS, a network that was taught what listeners said of noisy speech: 1 is bad, 5 excellent.

It needs `pip install --no-deps speechmos`, for the network alone.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import soxr

from benchmarks.listening import Clip
from kokoro_server.engine.protocol import SAMPLE_RATE

PACKAGE = "speechmos"
RATE = 16_000
WINDOW = int(9.01 * RATE)  # samples that the network hears at once; a shorter clip is repeated
OVERALL = 2  # of what it answers: speech, background, overall
TO_MOS = (-0.06766283, 1.11546468, 0.04602535)  # its own polynomial for the overall score


def is_there() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def scores(clips: Mapping[str, Sequence[Clip]]) -> dict[str, float]:
    """The mean of each name's clips."""
    return {name: round(statistics.mean(map(score, each)), 4) for name, each in clips.items()}


def score(clip: Clip) -> float:
    sound = soxr.resample(clip, SAMPLE_RATE, RATE).astype(np.float32)
    whole = np.tile(sound, -(-WINDOW // len(sound)))
    found = []
    for start in range(0, len(whole) - WINDOW + 1, RATE):
        (answer,) = _network().run(None, {"input_1": whole[None, start : start + WINDOW]})
        found.append(float(np.polyval(TO_MOS, answer[0][OVERALL])))
    return statistics.mean(found)


@cache
def _network() -> Any:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "dnsmos_models" / "sig_bak_ovr.onnx"
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
