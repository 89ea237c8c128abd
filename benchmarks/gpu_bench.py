"""The engine on one NVIDIA GPU against plain `kokoro.KModel`, on the same card in the same run.

    python -m benchmarks.gpu_bench --out benchmarks/results/engine_cuda.json

Throughput at 1 to 64 rows: equal rows of 4.65 s, real sentences packed by length as the queue packs them, and real
sentences as they come (a few words beside a paragraph). Then times of the two steps; where the device's time
goes; how far the sound is from single precision with the same F0 and noise; how many durations differ.
Times are medians of whole `synthesize` calls, text to samples in host memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import common
from kokoro_server.engine import reference, vocab
from kokoro_server.engine.cuda_engine import FRAMES, ROWS, TOKENS, CudaEngine, single_precision
from kokoro_server.engine.fused import draw
from kokoro_server.engine.model import BatchedKokoro, Plan
from kokoro_server.engine.places import DeviceSpan
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Row
from kokoro_server.engine.torch_engine import batched
from kokoro_server.engine.voices import VoiceBook

SENTENCES = common.ROOT / "tests" / "data" / "sentences.json"
ROW_COUNTS = (*range(1, 17), 24, 32, 48, 64)
EQUAL_SECONDS = 4.65
GROUP = 8  # rows of a batch in comparisons


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--weights", type=Path, help="a converted safetensors file; by default the cache's")
    parser.add_argument("--voices", type=Path, help="a folder of voice packs; by default the cache's")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("gpu_bench.json"))
    options = parser.parse_args()
    weights, voices = find(options.weights, options.voices)
    model = reference.load(weights)
    rows = sentences(voices)
    engine = CudaEngine(model, torch.device("cuda", 0), options.precision)
    results: dict[str, Any] = {
        "benchmark": "engine on CUDA",
        "gpu": torch.cuda.get_device_name(),
        "precision": options.precision,
    }
    results["fidelity"] = show("fidelity", fidelity(engine, model, rows))
    results["warmup"] = show("warmup", warmup(engine))
    equal = stretched(engine, rows)
    results["rows"] = [show("rows", speeds(engine, equal, rows, count, options.rounds)) for count in ROW_COUNTS]
    results["memory"] = {"peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}
    results["kernels"] = [show("kernels", profile(engine, equal, count)) for count in (1, 64)]
    results["kmodel"] = show("kmodel", plain(model.to("cuda"), rows[:20], equal))
    common.write(options.out, results)


def show(name: str, found: dict[str, Any]) -> dict[str, Any]:
    print(name, json.dumps(found), flush=True)
    return found


def find(weights: Path | None, voices: Path | None) -> tuple[Path, VoiceBook]:
    if weights is None or voices is None:
        from kokoro_server.config import Settings
        from kokoro_server.engine import assets

        settings = Settings.load(dotenv=None)
        found = assets.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
        weights, voices = weights or found.weights, voices or found.voices
    return weights, VoiceBook(voices)


def sentences(voices: VoiceBook) -> list[Row]:
    """Every sentence, in every voice that there is; neighbours are of different lengths."""
    tokens = [vocab.tokenize(entry["phonemes"]) for entry in json.loads(SENTENCES.read_text(encoding="utf-8"))]
    names = voices.names()
    pairs = [(ids, names[(i + turn) % len(names)]) for turn in range(len(names)) for i, ids in enumerate(tokens)]
    return [Row(ids, voices.style(voice, len(ids)), seed=seed) for seed, (ids, voice) in enumerate(pairs)]


def stretched(engine: CudaEngine, rows: list[Row]) -> Row:
    """A sentence, at the speed that makes it as long as the rows of earlier measurements."""
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


def speeds(engine: CudaEngine, equal: Row, rows: list[Row], count: int, rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": count}
    packed = sorted(rows, key=lambda row: len(row.tokens))[(len(rows) - count) // 2 :][:count]
    for name, batch in (("equal", [equal] * count), ("packed", packed), ("mix", rows[:count])):
        seconds = sum(len(result.audio) for result in engine.synthesize(batch)) / SAMPLE_RATE
        took = median(lambda batch=batch: engine.synthesize(batch), rounds)  # type: ignore[misc]
        found[name] = {"audio_s": round(seconds, 2), "ms": round(took * 1e3, 2), "audio_s_per_s": round(seconds / took)}
    return found


def plain(model: Any, rows: list[Row], equal: Row) -> dict[str, Any]:
    def speak(row: Row) -> int:
        tokens = torch.tensor([[0, *row.tokens, 0]], device="cuda")
        audio, _ = model.forward_with_tokens(tokens, torch.tensor(row.style, device="cuda")[None], row.speed)
        return len(audio.cpu())

    alone = median(lambda: speak(equal), 10)
    samples = sum(speak(row) for row in rows)
    took = median(lambda: [speak(row) for row in rows], 2)
    return {"equal_ms": round(alone * 1e3, 2), "mix_audio_s_per_s": round(samples / SAMPLE_RATE / took, 1)}


@torch.inference_mode()
def fidelity(engine: CudaEngine, model: Any, rows: list[Row]) -> dict[str, Any]:
    """Against the plain batched model in single precision, which is KModel's twin."""
    device = engine.model.place.device
    exact = BatchedKokoro(model, device)
    moved = tokens = 0
    ratios: list[float] = []
    for start in range(0, len(rows), GROUP):
        batch = rows[start : start + GROUP]
        with single_precision("ieee", "ieee", "ieee"):
            plan = exact.plan(batched(batch, device))
            curves = exact.curves(plan)
            noise = draw(torch.tensor([row.seed for row in batch], device=device), plan.span.size * SAMPLES_PER_FRAME)
            wanted = exact.audio(plan, curves, noise)
        span = DeviceSpan(plan.span.lengths, plan.span.size, engine.model.exact)
        with single_precision("tf32", "tf32", "tf32"):
            given = Plan(plan.durations, span, plan.style, plan.prosody, plan.text)
            got = engine.model.audio(given, curves, noise)
        for i, (row, result) in enumerate(zip(batch, engine.synthesize(batch), strict=True)):
            lengths = plan.durations[i, : len(row.tokens) + 2].cpu().numpy()
            moved, tokens = moved + int((lengths != result.durations).sum()), tokens + len(lengths)
            end = plan.span.counts[i] * SAMPLES_PER_FRAME
            signal, error = wanted[i, :end].double(), (wanted[i, :end] - got[i, :end]).double()
            ratios.append(10 * float(torch.log10(signal.square().sum() / error.square().sum())))
    return {
        "sentences": len(rows),
        "durations": tokens,
        "durations_moved": moved,
        "snr_db_min": round(min(ratios), 1),
        "snr_db_lowest": [round(ratio, 1) for ratio in sorted(ratios)[:5]],
        "snr_db_median": round(float(np.median(ratios)), 1),
    }


@torch.inference_mode()
def profile(engine: CudaEngine, row: Row, count: int) -> dict[str, Any]:
    """The two steps alone, and the device's time by kernel."""
    frames = int(engine.synthesize([row])[0].durations.sum())
    steps = {"read": TOKENS.up(len(row.tokens) + 2), "speak": FRAMES.up(frames)}
    found: dict[str, Any] = {"rows": count}
    engine.synthesize([row] * count)
    with engine._session():
        for kind, size in steps.items():
            found[f"{kind}_ms"] = round(median(lambda k=kind, s=size: engine._step(k, ROWS.up(count), s), 10) * 1e3, 2)  # type: ignore[misc]
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            for kind, size in steps.items():
                engine._step(kind, ROWS.up(count), size)
            torch.cuda.synchronize()
    kernels = sorted(seen.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    found["launches"] = sum(kernel.count for kernel in kernels)
    found["device_ms"] = round(sum(kernel.self_device_time_total for kernel in kernels) / 1e3, 2)
    found["kernels"] = [
        [kernel.key[:60], kernel.count, round(kernel.self_device_time_total / 1e3, 3)] for kernel in kernels[:16]
    ]
    return found


if __name__ == "__main__":
    main()
