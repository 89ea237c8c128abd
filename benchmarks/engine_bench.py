"""The batched engine against plain `kokoro.KModel` one sentence at a time, on the same sentences in the same run.

    python -m benchmarks.engine_bench --device cpu --rows 1,4,8 --out engine_cpu.json

Both take turns in every round, so a busy machine slows both alike; figures are medians over the rounds. Sentences of
about one length make up a batch, as the queue packs them. The last part measures memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from kokoro_server.config import Settings
from kokoro_server.engine import assets, reference, vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, Row
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.engine.voices import VoiceBook

SENTENCES = common.ROOT / "tests" / "data" / "sentences.json"
VOICES = ("af_heart", "am_michael", "bf_emma", "bm_george")

Speak = Callable[[Sequence[Row]], float]  # gives the seconds of audio made


def main() -> None:
    options = parse()
    if options.threads:
        torch.set_num_threads(options.threads)
    settings = Settings.load(dotenv=None)
    found = assets.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    rows = choose_rows(VoiceBook(found.voices), max(options.rows))
    engine = TorchEngine.load(found.weights, options.device)
    contenders: dict[str, Speak] = {
        "kmodel": plain(reference.load(found.weights).to(engine.device)),
        "batched": lambda batch: sum(len(result.audio) for result in engine.synthesize(batch)) / SAMPLE_RATE,
    }
    results: dict[str, Any] = {
        "benchmark": "engine",
        "device": engine.device,
        "threads": torch.get_num_threads(),
        "rounds": options.rounds,
        "tokens": [len(row.tokens) for row in rows],
        "rows": [compare(contenders, rows[:count], options.rounds) for count in options.rows],
    }
    if engine.device == "cpu":
        results["memory"] = memory(engine, rows[0], max(options.rows))
    common.write(options.out, results)
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=lambda text: [int(part) for part in text.split(",")], default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of torch; its own choice by default")
    parser.add_argument("--out", type=Path, default=Path("engine_bench.json"))
    return parser.parse_args()


def choose_rows(voices: VoiceBook, count: int) -> list[Row]:
    """Sentences of middling length, nearly alike."""
    phonemes = sorted((entry["phonemes"] for entry in json.loads(SENTENCES.read_text(encoding="utf-8"))), key=len)
    start = max(0, len(phonemes) // 2 - count // 2)
    tokens = [vocab.tokenize(text) for text in phonemes[start : start + count]]
    return [Row(ids, voices.style(VOICES[i % len(VOICES)], len(ids)), seed=i) for i, ids in enumerate(tokens)]


def plain(model: Any) -> Speak:
    def speak(rows: Sequence[Row]) -> float:
        samples = 0
        for row in rows:
            tokens = torch.tensor([[0, *row.tokens, 0]], device=model.device)
            audio, _ = model.forward_with_tokens(tokens, torch.tensor(row.style, device=model.device)[None], row.speed)
            samples += len(audio.cpu())
        return samples / SAMPLE_RATE

    return speak


def compare(contenders: dict[str, Speak], rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for speak in contenders.values():
        speak(rows[:1])
    for _ in range(rounds):
        for name, speak in contenders.items():
            started, used = time.perf_counter(), time.process_time()
            seconds = speak(rows)
            wall[name].append((time.perf_counter() - started) / seconds)
            cpu[name].append((time.process_time() - used) / seconds)
    result: dict[str, Any] = {"rows": len(rows), "audio_seconds": round(seconds, 3)}
    for name in contenders:
        result[name] = {
            "real_time_factor": round(statistics.median(wall[name]), 4),
            "cpu_seconds_per_audio_second": round(statistics.median(cpu[name]), 4),
        }
    result["speedup"] = round(statistics.median(a / b for a, b in zip(*wall.values(), strict=True)), 3)
    print(f"rows={len(rows)} {json.dumps(result)}", flush=True)
    return result


def memory(engine: TorchEngine, row: Row, most: int) -> dict[str, Any]:
    """How the process's peak grows with the padded frames of a batch. Ascending: a peak never comes down."""
    points = []
    for count in (2 * most, 4 * most):
        results = engine.synthesize([row] * count)
        points.append((count * int(results[0].durations.sum()), peak_bytes()))
    (fewer, before), (more, after) = points
    found = {"padded_frames": more, "bytes_per_padded_frame": round((after - before) / (more - fewer))}
    print(f"memory {json.dumps(found)}", flush=True)
    return found


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
