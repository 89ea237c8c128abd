"""How near an engine's speech is to that of single precision: durations, level, spectrum, and what Whisper hears.

    python -m benchmarks.fidelity cpu --out fidelity_cpu.json --clips clips      (or cuda)
    python -m benchmarks.fidelity listen --out fidelity_cpu.json --clips clips

Spectra are compared between clips of the same noise. The yardstick is the distance between two clips of the reference
that differ in nothing but their noise: what no listener minds. The clips are left in a folder, and `listen` hears them,
on any machine, and adds what it heard to the results, and what `quality` says if its package is there. On a CPU, clips
that the folder has already are not made again.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common, corpus, listening, quality
from kokoro_server.engine.protocol import Engine, Result, Row
from kokoro_server.voices import VoiceBook

OTHER_NOISE = 1_000_000  # added to a seed
REFERENCE = "torch-fp32"  # on a CPU
FLOOR = 20  # sentences that are spoken again there, with other noise

Speak = Callable[[Sequence[Row]], list[Result]]


def main() -> None:
    options = parse()
    {"cpu": on_cpu, "cuda": on_cuda, "listen": listen}[options.what](options)
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("cpu", "cuda", "listen"))
    parser.add_argument("--weights", type=Path, help="a converted safetensors file; by default the cache's")
    parser.add_argument("--voices", type=Path, help="a folder of voice packs; by default the cache's")
    parser.add_argument("--sentences", type=int, help="whose durations are compared (default: 240, on CUDA 1000)")
    parser.add_argument("--heard", type=int, default=60, help="sentences whose sound is compared")
    parser.add_argument("--clips", type=Path, required=True, help="a folder for the clips that are heard")
    parser.add_argument("--precisions", help="of the engine (default: every build for CPUs, on CUDA fp32,fp16,bf16)")
    parser.add_argument("--out", type=Path, default=Path("fidelity.json"))
    return parser.parse_args()


def spread(count: int) -> list[int]:
    """Sentences from all over the corpus, in their order."""
    return [round(place) for place in np.linspace(0, len(corpus.sentences()) - 1, count)]


def short(count: int) -> list[int]:
    """The same, of the shorter half: on a CPU their sound takes long enough."""
    order = sorted(range(len(corpus.sentences())), key=lambda index: len(corpus.sentences()[index]["phonemes"]))
    half = order[: len(order) // 2]
    return sorted(half[round(place)] for place in np.linspace(0, len(half) - 1, count))


def one_by_one(engine: Engine) -> Speak:
    return lambda rows: [engine.synthesize([row])[0] for row in rows]


def sound(results: Sequence[Result]) -> list[listening.Clip]:
    return [result.audio for result in results]


def together(engine: Engine) -> Speak:
    size = engine.limits.max_rows // 2

    def speak(rows: Sequence[Row]) -> list[Result]:
        return [result for at in range(0, len(rows), size) for result in engine.synthesize(rows[at : at + size])]

    return speak


def on_cpu(options: argparse.Namespace) -> None:
    from benchmarks import contenders

    weights, folder = common.find(options.weights, options.voices)
    voices = VoiceBook(folder)
    rows = corpus.various(voices, spread(options.sentences or 240))
    heard = short(options.heard)
    loud = corpus.various(voices, heard)
    other = [replace(row, seed=row.seed + OTHER_NOISE) for row in loud[:FLOOR]]
    spoken = {REFERENCE: listening.once(options.clips / f"{REFERENCE}.npz", lambda: torch_clips(weights, loud))}
    again = listening.once(options.clips / "floor" / f"{REFERENCE}.npz", lambda: torch_clips(weights, other))
    results: dict[str, Any] = {
        "benchmark": "fidelity",
        "device": "cpu",
        "weights": weights.name,
        "reference": REFERENCE,
        "voices": len(corpus.TWELVE_VOICES),
        "heard_sentences": heard,
        "floor": common.show("floor", {"log_mel_db": spectra(list(zip(spoken[REFERENCE], again, strict=False)))}),
        "engines": {},
    }
    common.write(options.out, results)
    known = options.clips / "durations" / f"{REFERENCE}-{len(rows)}.npz"
    wanted = listening.arrays_once(known, lambda: torch_durations(weights, rows))
    for variant in (options.precisions or "fp32,int8,int8-graphs,int8-unsigned").split(","):
        name = f"onnx-{variant}"
        engine, graphs = contenders.onnx_variant(weights, variant)
        got = graph_durations(graphs, rows)
        spoken[name] = listening.once(
            options.clips / f"{name}.npz",
            lambda engine=engine: sound(one_by_one(engine)(loud)),  # type: ignore[misc]
        )
        found = {"durations": durations(wanted, got)} | nearness(spoken[REFERENCE], spoken[name])
        results["engines"][name] = common.show(name, found)
        common.write(options.out, results)


def torch_clips(weights: Path, rows: Sequence[Row]) -> list[listening.Clip]:
    from kokoro_server.engine import devices

    return sound(one_by_one(devices.load_all(weights, ["cpu"])[0])(rows))


def torch_durations(weights: Path, rows: Sequence[Row]) -> list[NDArray[np.int64]]:
    """What the torch engine predicts, without the sound."""
    import torch

    from kokoro_server.engine import devices
    from kokoro_server.engine.torch_engine import token_batch

    engine = devices.load_all(weights, ["cpu"])[0]
    with torch.inference_mode():
        return [engine.model.align(token_batch([row], torch.device("cpu"))).durations[0].numpy() for row in rows]


def graph_durations(folder: Path, rows: Sequence[Row]) -> list[NDArray[np.int64]]:
    """What the text graph of the ONNX engine predicts, without the sound."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "text.onnx", providers=["CPUExecutionProvider"])
    (output,) = [given.name for given in session.get_outputs() if given.type == "tensor(int64)"]

    def predict(row: Row) -> NDArray[np.int64]:
        tokens, speed = np.array([[0, *row.tokens, 0]], np.int64), np.array([row.speed], np.float32)
        found: NDArray[np.int64] = session.run([output], {"tokens": tokens, "style": row.style[None], "speed": speed})[
            0
        ]
        return found[0]

    return [predict(row) for row in rows]


def on_cuda(options: argparse.Namespace) -> None:
    import torch

    from benchmarks import engine_cuda
    from benchmarks.exactness import Exact, kmodel
    from kokoro_server.engine.model import reference as plain

    gpu = torch.device("cuda", 0)
    weights, folder = common.find(options.weights, options.voices)
    voices = VoiceBook(folder)
    rows = corpus.various(voices, spread(options.sentences or 1000))
    heard = spread(options.heard)
    loud = corpus.various(voices, heard)
    model = plain.load(weights)
    results: dict[str, Any] = {
        "benchmark": "fidelity",
        "device": torch.cuda.get_device_name(),
        "weights": weights.name,
        "reference": "cuda-fp32",
        "voices": len(corpus.TWELVE_VOICES),
        "heard_sentences": heard,
        "engines": {},
    }
    spoken: dict[str, list[Result]] = {}
    exact = Exact(model, gpu)
    for precision in (options.precisions or "fp32,fp16,bf16").split(","):
        count = len(rows) if precision == "fp16" else min(200, len(rows))
        engine = engine_cuda.made(model, precision)
        name = f"cuda-{precision}"
        spoken[name] = together(engine)(loud)
        found = {"same_curves_and_noise": exact.distance(engine, rows[:: len(rows) // count])}
        if precision != "fp32":
            found |= nearness(*(sound(spoken[one]) for one in ("cuda-fp32", name)))
        results["engines"][name] = common.show(name, found)
        common.write(options.out, results)
        del engine
        gc.collect()
        torch.cuda.empty_cache()
    speak = kmodel(model.to(gpu))
    spoken["kmodel"] = speak(loud)
    again = speak([replace(row, seed=row.seed + OTHER_NOISE) for row in loud])
    pairs = list(zip(sound(spoken["kmodel"]), sound(again), strict=True))
    results["floor"] = common.show("floor", {"log_mel_db": spectra(pairs)})
    results["kmodel_durations"] = {
        name: durations([r.durations for r in spoken["kmodel"]], [r.durations for r in spoken[name]])
        for name in results["engines"]
    }
    common.show("kmodel", results["kmodel_durations"])
    common.write(options.out, results)
    for name, clips in spoken.items():
        listening.keep(options.clips / f"{name}.npz", sound(clips))


def listen(options: argparse.Namespace) -> None:
    """Adds to the results, and leaves what is known of their machine as it is."""
    results = json.loads(options.out.read_text(encoding="utf-8"))
    heard = {path.stem: listening.heard(path) for path in sorted(options.clips.glob("*.npz"))}
    texts = [corpus.sentences()[index]["text"] for index in results["heard_sentences"]]
    results["heard"] = common.show("heard", listening.compare(heard, results["reference"], texts))
    if quality.is_there():
        clips = {path.stem: listening.kept(path) for path in sorted(options.clips.glob("*.npz"))}
        results["dnsmos"] = common.show("DNSMOS", quality.scores(clips))
    options.out.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def durations(wanted: Sequence[NDArray[np.int64]], got: Sequence[NDArray[np.int64]]) -> dict[str, int]:
    moved = [int((one != other).sum()) for one, other in zip(wanted, got, strict=True)]
    return {
        "sentences": len(wanted),
        "sentences_moved": sum(count > 0 for count in moved),
        "durations": sum(len(one) for one in wanted),
        "durations_moved": sum(moved),
    }


def nearness(wanted: Sequence[listening.Clip], got: Sequence[listening.Clip]) -> dict[str, Any]:
    """Of clips with the same noise; those whose lengths differ cannot be laid over each other and are only counted."""
    pairs = list(zip(wanted, got, strict=True))
    alike = [pair for pair in pairs if len(pair[0]) == len(pair[1])]
    levels = [listening.level(other) - listening.level(one) for one, other in pairs]
    return {
        "of_other_length": len(pairs) - len(alike),
        "level_db": {"mean": round(float(np.mean(levels)), 3), "most": round(max(map(abs, levels)), 3)},
        "log_mel_db": spectra(alike),
    }


def spectra(pairs: Sequence[tuple[listening.Clip, listening.Clip]]) -> dict[str, float]:
    from tests.engine.kmodel import log_mel_distance

    found = [log_mel_distance(one, other) for one, other in pairs]
    return {
        "sentences": len(found),
        "least": round(min(found), 2),
        "median": round(float(np.median(found)), 2),
        "mean": round(float(np.mean(found)), 2),
        "most": round(max(found), 2),
    }


if __name__ == "__main__":
    main()
