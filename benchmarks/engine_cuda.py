"""The engine on one NVIDIA GPU against plain `kokoro.KModel`, on the same card in the same run.

Whole `synthesize` calls, text to samples in host memory, at 1 to 128 rows: equal rows of 4.65 s, real sentences packed
by length as the queue packs them, and real sentences as they come (a few words beside a paragraph). In every precision,
from recorded graphs and kernel by kernel; with peak memory, and the distance from single precision with the same F0 and
noise. Then, for the first precision, the time of each stage and of each kernel; and all precisions in turns. Times are
medians.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

from benchmarks import common, corpus, stages
from benchmarks.exactness import Exact
from kokoro_server.engine.cuda import engine as cuda_engine
from kokoro_server.engine.cuda import shapes
from kokoro_server.engine.cuda.engine import CudaEngine
from kokoro_server.engine.cuda.graph_cache import Buckets
from kokoro_server.engine.model import reference
from kokoro_server.engine.protocol import SAMPLE_RATE, Row
from kokoro_server.voices import VoiceBook

ALL_ROWS = (*range(1, 17), 24, 32, 48, 64, 96, 128)
SOME_ROWS = (1, 4, 16, 64)
BEYOND = (96, 128)
TURNS = 5
EQUAL_SECONDS = 4.65
GPU = torch.device("cuda", 0)


def run(options: argparse.Namespace) -> None:
    weights, voices = common.find(options.weights, options.voices)
    rows = corpus.basic(VoiceBook(voices))
    model = reference.load(weights)
    equal = stretched(model, rows)
    exact = Exact(model, GPU)
    first = options.precisions[0]
    results: dict[str, Any] = {
        "benchmark": "engine on CUDA",
        "gpu": torch.cuda.get_device_name(),
        "weights": weights.name,
        "precision": first,
        "rounds": options.rounds,
        "limits": {"rows_in_one_pass": cuda_engine.MAX_ROWS, "padded_frames": cuda_engine.MAX_PADDED_FRAMES},
    }

    def keep(name: str, found: Any) -> None:
        """Written at once: what comes later may fail."""
        results[name] = found
        common.write(options.out, results)

    if options.add:
        results = json.loads(options.out.read_text(encoding="utf-8"))
    else:
        in_detail(model, first, equal, rows, options.rounds, keep)
    precisions = results.get("precisions", [])
    for precision in options.precisions:
        if precision not in [entry["precision"] for entry in precisions]:
            found = measure(model, precision, exact, equal, rows, options.rounds)
            precisions.append(common.show("precision", {"precision": precision} | found))
            keep("precisions", precisions)
    keep("in_turns", common.show("in turns", in_turns(model, options.precisions, equal, rows, options.rounds)))


def in_detail(
    model: Any, precision: str, equal: Row, rows: Sequence[Row], rounds: int, keep: Callable[[str, Any], None]
) -> None:
    with loaded(model, precision) as engine:
        keep("warmup", common.show("warmup", warmup(engine)))
        keep("stages", [common.show("stages", stages.times(engine, equal, count)) for count in (1, 64)])
        keep("kernels", [common.show("kernels", stages.kernels(engine, equal, count)) for count in (1, 64)])
        keep("rows", [common.show("rows", speeds(engine, equal, rows, count, rounds)) for count in ALL_ROWS])
    keep("kmodel", common.show("kmodel", plain(model.to(GPU), rows[:20], equal)))
    model.to("cpu")
    with wider(max(BEYOND)), loaded(model, precision) as engine:
        wide = [speeds(engine, equal, rows, count, rounds) for count in (64, *BEYOND)]
        keep("one_pass_beyond_the_limit", common.show("one pass", wide))


def made(model: Any, precision: str) -> CudaEngine:
    """fp16+triton and int8+triton: without the convolutions of `halo_conv`, as on cards that are not Hopper's."""
    return CudaEngine(model, GPU, precision.removesuffix("+triton"), halo=not precision.endswith("+triton"))


@contextmanager
def loaded(model: Any, precision: str) -> Iterator[CudaEngine]:
    """An engine, and nothing of it left behind."""
    engine = made(model, precision)
    try:
        yield engine
    finally:
        engine.free_memory()
        del engine
        gc.collect()
        torch.cuda.empty_cache()


@contextmanager
def wider(rows: int) -> Iterator[None]:
    """An engine made in here takes so many rows in one pass."""
    buckets = Buckets((4, 1), (16, 4), (rows, 16))
    with ExitStack() as stack:
        for module in (cuda_engine, shapes):
            stack.enter_context(patch.object(module, "MAX_ROWS", rows))
            stack.enter_context(patch.object(module, "ROWS", buckets))
        yield


def stretched(model: Any, rows: Sequence[Row]) -> Row:
    """A sentence, at the speed that makes it as long as the rows of earlier measurements."""
    with loaded(model, "fp16") as engine:
        lengths = [len(engine.synthesize([row])[0].audio) / SAMPLE_RATE for row in rows[:20]]
    row, seconds = min(zip(rows, lengths, strict=False), key=lambda pair: abs(pair[1] - EQUAL_SECONDS))
    return replace(row, speed=seconds / EQUAL_SECONDS)


def median(work: Callable[[], Any], rounds: int) -> float:
    """Seconds; the first three runs record graphs and do not count."""
    times = []
    for _ in range(rounds + 3):
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[3:])


def warmup(engine: CudaEngine) -> dict[str, Any]:
    started = time.perf_counter()
    engine.warmup()
    reserved = torch.cuda.memory_reserved() / 2**30
    return {"seconds": round(time.perf_counter() - started, 1), "reserved_gib": round(reserved, 2)}


def speed(engine: CudaEngine, batch: Sequence[Row], rounds: int) -> dict[str, Any]:
    seconds = sum(len(result.audio) for result in engine.synthesize(batch)) / SAMPLE_RATE
    while engine.background_step():  # a server does this while it is idle
        pass
    took = median(lambda: engine.synthesize(batch), rounds)
    return {"audio_s": round(seconds, 2), "ms": round(took * 1e3, 2), "audio_s_per_s": round(seconds / took)}


def speeds(engine: CudaEngine, equal: Row, rows: Sequence[Row], count: int, rounds: int) -> dict[str, Any]:
    batches = {"equal": [equal] * count, "packed": packed(rows, count), "mix": list(rows[:count])}
    return {"rows": count} | {name: speed(engine, batch, rounds) for name, batch in batches.items()}


def measure(model: Any, precision: str, exact: Exact, equal: Row, rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    before = torch.cuda.memory_allocated()
    with loaded(model, precision) as engine:
        found: dict[str, Any] = {"engine_gib": round((torch.cuda.memory_allocated() - before) / 2**30, 2)}
        found["distance"] = exact.distance(engine, rows[: corpus.BASIC])
        found["graphs"] = [{"rows": count} | speed(engine, [equal] * count, rounds) for count in SOME_ROWS]
        found["mix"] = [{"rows": count} | speed(engine, rows[:count], rounds) for count in SOME_ROWS]
        with eager(engine):
            found["eager"] = [{"rows": count} | with_peak(engine, [equal] * count, rounds) for count in SOME_ROWS]
    return found


def in_turns(
    model: Any, precisions: Sequence[str], equal: Row, rows: Sequence[Row], rounds: int
) -> list[dict[str, Any]]:
    """All precisions' engines beside each other, a few batches of each at a time: the card is as warm for all."""
    with ExitStack() as stack:
        engines = {precision: stack.enter_context(loaded(model, precision)) for precision in precisions}
        found = []
        for count in SOME_ROWS:
            for name, batch in (("equal", [equal] * count), ("packed", packed(rows, count))):
                turns = [[speed(engine, batch, rounds) for engine in engines.values()] for _ in range(TURNS)]
                took = [statistics.median(one["ms"] for one in each) for each in zip(*turns, strict=True)]
                found.append({"rows": count, "batch": name} | dict(zip(engines, took, strict=True)))
        return found


def packed(rows: Sequence[Row], count: int) -> list[Row]:
    """So many of the sentences in the middle by length, as the queue packs them."""
    return sorted(rows, key=lambda row: len(row.tokens))[(len(rows) - count) // 2 :][:count]


def with_peak(engine: CudaEngine, batch: Sequence[Row], rounds: int) -> dict[str, Any]:
    """With the memory that the batch takes at its fullest, beside the engine's own."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = speed(engine, batch, rounds)
    return found | {"batch_gib": round((torch.cuda.max_memory_allocated() - before) / 2**30, 2)}


@contextmanager
def eager(engine: CudaEngine) -> Iterator[None]:
    """Every kernel launched by itself."""
    engine.free_memory()
    with patch.object(engine._graphs, "run", lambda _key, step: step()):
        yield


def plain(model: Any, rows: Sequence[Row], equal: Row) -> dict[str, Any]:
    def speak(row: Row) -> int:
        tokens = torch.tensor([[0, *row.tokens, 0]], device=GPU)
        audio, _ = model.forward_with_tokens(tokens, torch.tensor(row.style, device=GPU)[None], row.speed)
        return len(audio.cpu())

    alone = median(lambda: speak(equal), 10)
    samples = sum(speak(row) for row in rows)
    took = median(lambda: [speak(row) for row in rows], 2)
    return {
        "equal_ms": round(alone * 1e3, 2),
        "equal_audio_s_per_s": round(EQUAL_SECONDS / alone, 1),
        "mix_audio_s_per_s": round(samples / SAMPLE_RATE / took, 1),
    }
