"""Several rows at once on a CPU against plain `kokoro.KModel` one by one, and the memory that a batch takes.

Sentences of about one length make up a batch, as the queue packs them.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks import common, corpus
from benchmarks.contenders import Place, onnx_engine
from kokoro_server.engine import devices
from kokoro_server.engine.model import reference
from kokoro_server.engine.protocol import SAMPLE_RATE, Engine, Row

VOICES = ("af_heart", "am_michael", "bf_emma", "bm_george")

Speak = Callable[[Sequence[Row]], float]  # gives the seconds of audio made


def measure(place: Place, counts: Sequence[int], rounds: int) -> dict[str, Any]:
    torch.set_num_threads(place.threads)
    rows = choose_rows(place, max(counts))
    engine = devices.load_all(place.weights, ["cpu"])[0]
    speakers = {
        "kmodel": plain(reference.load(place.weights)),
        "ours-torch": batched(engine),
        "ours-onnx-int8": batched(onnx_engine(place.weights, "int8", place.threads)),
    }
    found = [compare(speakers, rows[:count], rounds) for count in counts]
    return {"batches": found, "memory": memory(engine, rows[0], max(counts))}


def choose_rows(place: Place, count: int) -> list[Row]:
    """Sentences of middling length, nearly alike."""
    order = sorted(range(corpus.BASIC), key=lambda index: len(corpus.sentences()[index]["phonemes"]))
    start = max(0, len(order) // 2 - count // 2)
    chosen = enumerate(order[start : start + count])
    return [corpus.row(place.voices, index, VOICES[i % len(VOICES)], i) for i, index in chosen]


def batched(engine: Engine) -> Speak:
    return lambda rows: sum(len(result.audio) for result in engine.synthesize(rows)) / SAMPLE_RATE


def plain(model: Any) -> Speak:
    def speak(rows: Sequence[Row]) -> float:
        samples = 0
        for row in rows:
            tokens, style = torch.tensor([[0, *row.tokens, 0]]), torch.tensor(row.style)[None]
            samples += len(model.forward_with_tokens(tokens, style, row.speed)[0])
        return samples / SAMPLE_RATE

    return speak


def compare(speakers: dict[str, Speak], rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    wall: dict[str, list[float]] = {name: [] for name in speakers}
    for speak in speakers.values():
        speak(rows[:1])
    for _ in range(rounds):
        for name, speak in speakers.items():
            started = time.perf_counter()
            seconds = speak(rows)
            wall[name].append(seconds / (time.perf_counter() - started))
    found = {name: {"audio_s_per_s": round(statistics.median(times), 3)} for name, times in wall.items()}
    return common.show("batch", {"rows": len(rows), "audio_seconds": round(seconds, 3), "contenders": found})


def memory(engine: Engine, row: Row, most: int) -> dict[str, Any]:
    """How the process's peak grows with the padded frames of a batch. Ascending: a peak never comes down."""
    points = []
    for count in (2 * most, 4 * most):
        results = engine.synthesize([row] * count)
        points.append((count * int(results[0].durations.sum()), peak_bytes()))
    (fewer, before), (more, after) = points
    growth = round((after - before) / (more - fewer))
    return common.show("memory", {"engine": "ours-torch", "padded_frames": more, "bytes_per_padded_frame": growth})


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
