"""The plain model with no server, one call after the other."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.corpus import sentences
from benchmarks.serving import targets
from benchmarks.serving.load import SAMPLE_RATE

VOICE = "af_heart"
CALLS = {"real": 40, "tiny": 4}
ROUNDS = 3
BEFORE = 3  # calls that do not count: the first are slower
SHORTEST = 68  # characters, so that the mean is that of the sentences that servers are asked for


def measure(model_name: str) -> dict[str, Any]:
    from kokoro_server.config.settings import Settings

    ordered = sorted((entry for entry in sentences() if len(entry["text"]) >= SHORTEST), key=lambda e: len(e["text"]))
    calls = CALLS[model_name]
    chosen = ordered[:: len(ordered) // calls][:calls]
    times, lengths, speeds = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        model, voices = targets.plain_model(model_name, Settings.load(dotenv=None), Path(folder))
        for entry in chosen[-BEFORE:]:
            targets.speak(model, voices, entry["phonemes"], VOICE)
        for _ in range(ROUNDS):
            before = len(times)
            for entry in chosen:
                started = time.perf_counter()
                lengths.append(len(targets.speak(model, voices, entry["phonemes"], VOICE)) / SAMPLE_RATE)
                times.append(time.perf_counter() - started)
            speeds.append(round(sum(lengths[before:]) / sum(times[before:]), 1))
    return {
        "calls": len(times),
        "audio_per_second": statistics.median(speeds),
        "rounds": speeds,
        "call_ms": round(1000 * statistics.median(times), 2),
        "characters": round(statistics.mean(len(entry["text"]) for entry in chosen), 1),
        "clip_seconds": round(statistics.mean(lengths), 3),
    }
