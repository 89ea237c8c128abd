"""Ways to run Kokoro-82M on a CPU, side by side: see `contenders`.

Contenders take turns in every round, so a busy machine slows all alike; figures are medians over the rounds, of clips
of about 2, 5 and 10 seconds. Speed is in seconds of audio per second, and the audio of a clip is as long for all as the
model says: kokoro-onnx cuts silence off its ends and is not blamed for it.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import common, corpus
from benchmarks.contenders import CONTENDERS, Clip, Place, Speak, ready
from kokoro_server.engine.cpu import instructions as module
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.voices import VoiceBook

VOICE = "af_heart"
PHONEMES = {"short": 32, "medium": 75, "long": 145}
BARS = {  # ours against others, in seconds of audio per second
    "ours-onnx-int8 / kmodel": 3.0,
    "ours-onnx-int8 / public-int8": 3.0,  # on x86-64 with VNNI; on ARM the product of bytes is its whole time
    "ours-onnx-int8 / ours-onnx-int8-graphs": 1.25,
    "ours-onnx-int8 / ours-onnx-int8-unsigned": 1.5,
    "ours-onnx-int8 / ours-onnx-fp32": 1.5,
    "ours-onnx-int8-graphs / kmodel": 1.7,
    "ours-onnx-fp32 / kmodel": 1.0,
    "ours-onnx-fp32 / public-fp32": 1.0,
}


def run(options: argparse.Namespace) -> None:
    if options.hide_avx512:
        hide_avx512()
    elif options.hide_amx:
        show_flags(sorted(module.flags() - {"amx_int8"}))
    weights, voices = common.find(options.weights, options.voices)
    place = Place(weights, VoiceBook(voices), options.threads)
    found = dict(ready(options.only or list(CONTENDERS), place))
    skipped = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    speakers = {name: speak for name, speak in found.items() if not isinstance(speak, str)}
    for name, reason in skipped.items():
        print(f"left out: {name}: {reason}", flush=True)
    before = read(options.out) if options.add else {}
    results: dict[str, Any] = {
        "benchmark": "engine",
        "device": "cpu",
        "weights": weights.name,
        "threads": options.threads,
        "instructions": instructions(),
        "left_out": skipped,
        "clips": before.get("clips", []),
    }
    results |= {name: before[name] for name in ("batches", "memory") if name in before}
    for speak in speakers.values():
        speak(clip("short", place.voices))
    for name in options.clips:
        times = {entry["clip"]: entry for entry in results["clips"]}.get(name, {})
        found = compare(speakers, clip(name, place.voices), options.rounds, times.get("contenders", {}))
        others = [entry for entry in results["clips"] if entry["clip"] != name]
        results["clips"] = sorted([*others, found], key=lambda entry: list(PHONEMES).index(entry["clip"]))
        common.write(options.out, results)
    if options.batches:
        from benchmarks import engine_batches

        results |= engine_batches.measure(place, options.batches, options.rounds)
        common.write(options.out, results)


def show_flags(flags: Iterable[str]) -> None:
    """Let the processor have these flags, for our kernels."""
    shown = Path(tempfile.mkdtemp(prefix="kokoro-flags-")) / "cpuinfo"
    shown.write_text(f"flags: {' '.join(flags)}\n", encoding="utf-8")
    atexit.register(shutil.rmtree, shown.parent)
    module.CPUINFO = shown


def hide_avx512() -> None:
    """Let our kernels and torch be those of a processor with AVX2. To onnxruntime nothing can be hidden.

    To be called before any of them is imported.
    """
    show_flags(["avx", "avx2", "fma"])
    os.environ |= {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    }


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def clip(name: str, voices: VoiceBook) -> Clip:
    """The sentence whose length is nearest to what the clip should have."""
    lengths = [abs(len(sentence["phonemes"]) - PHONEMES[name]) for sentence in corpus.sentences()]
    index = lengths.index(min(lengths))
    return Clip(name, corpus.sentences()[index]["phonemes"], VOICE, corpus.row(voices, index, VOICE, 0))


def compare(speakers: dict[str, Speak], clip: Clip, rounds: int, before: dict[str, Any]) -> dict[str, Any]:
    """`before` are the figures of earlier rounds, which count too."""
    wall: dict[str, list[float]] = {name: list(before.get(name, {}).get("seconds", [])) for name in speakers}
    cpu: dict[str, list[float]] = {name: list(before.get(name, {}).get("cpu_seconds", [])) for name in speakers}
    samples: dict[str, int] = {}
    for _ in range(rounds):
        for name, speak in speakers.items():
            started, used = time.perf_counter(), time.process_time()
            samples[name] = speak(clip)
            wall[name].append(round(time.perf_counter() - started, 4))
            cpu[name].append(round(time.process_time() - used, 4))
    seconds = max(samples.values()) / SAMPLE_RATE
    speeds = {name: seconds / statistics.median(times) for name, times in wall.items()}
    found = {
        "clip": clip.name,
        "phonemes": len(clip.row.tokens),
        "audio_seconds": round(seconds, 3),
        "contenders": {name: kept for name, kept in before.items() if name not in speakers}
        | {
            name: {
                "audio_s_per_s": round(speeds[name], 3),
                "real_time_factor": round(1 / speeds[name], 4),
                "cpu_s_per_audio_s": round(statistics.median(cpu[name]) / seconds, 3),
                "samples": samples[name],
                "seconds": wall[name],
                "cpu_seconds": cpu[name],
            }
            for name in speakers
        },
        "ratios": ratios(speeds),
    }
    return common.show(clip.name, found)


def ratios(speeds: dict[str, float]) -> dict[str, Any]:
    found = {}
    for pair, bar in BARS.items():
        ours, other = pair.split(" / ")
        if ours in speeds and other in speeds:
            ratio = speeds[ours] / speeds[other]
            found[pair] = {"ratio": round(ratio, 3), "bar": bar, "met": ratio >= bar}
    return found
