"""A server on 1 to 16 cores of a CPU, and beside it, on the same cores, the plain model and the public int8 export.

    python -m benchmarks.cores_bench [--cores 1,2,4,8,16] [--clients 1,4,16,64] [--seconds 6] [--out FILE]

The server is a real process with its own G2P, as `kokoro-server serve` starts it, and may use the first N cores alone;
clients are as in `serve_bench.py`. The others speak phonemes without a server, in as many processes as serves them
best: one for every core, one for every four, or one in all. Ours does so too, in one process with rows side by side.

The file is written after each measurement. What no longer fits into `--limit` seconds is left out, and named.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import common, contenders, corpus, serve_bench
from benchmarks.contenders import Clip, Place, Speak
from benchmarks.serve_bench import Bench, Window
from benchmarks.serving.figures import OURS
from benchmarks.serving.started import running
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.voices import VoiceBook
from tests import servers

ENGINE = "ours-onnx-int8"
OTHERS = ("kmodel", "public-int8")
ENDPOINTS = ("/tts", "/tts/stream")
START_SECONDS, MODEL_SECONDS = 15, 25  # that a server, or a round of the others, may take besides measuring
PATIENCE = 300.0  # seconds that processes wait for one another


def main() -> None:
    options = parse()
    results = common.facts() | {
        "benchmark": "cores", "seconds": options.seconds, "engines": [], "runs": [], "ratios": {}, "left_out": []
    }  # fmt: skip
    context = multiprocessing.get_context("spawn")
    processes = options.client_processes
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(processes, mp_context=context) as pool:
        list(pool.map(time.sleep, [0.5] * processes))  # now they have started, and may use every core
        bench = Bench(options, results, Path(folder), pool, time.monotonic() + options.limit)
        for cores in options.cores:
            measure(bench, cores)
            results["ratios"] = ratios(results)
            bench.save()
    common.show("ratios", results["ratios"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = len(os.sched_getaffinity(0))
    numbers = partial(_words, kind=int)
    parser.add_argument("--cores", type=numbers, default=tuple(n for n in (1, 2, 4, 8, 16) if n <= here))
    parser.add_argument("--clients", type=numbers, default=(1, 4, 16, 64))
    parser.add_argument("--engines", type=_words, default=(ENGINE, *OTHERS))
    parser.add_argument("--seconds", type=float, default=6.0, help="that each measurement lasts")
    parser.add_argument("--weights", type=Path, help="a converted safetensors file; by default the cache's")
    parser.add_argument("--voices", type=Path, help="a folder of voice packs; by default the cache's")
    parser.add_argument("--client-processes", type=int, default=min(4, here))
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which nothing more is begun")
    parser.add_argument("--out", type=Path, default=Path("cores_bench.json"))
    options = parser.parse_args()
    options.weights, options.voices = common.find(options.weights, options.voices)
    options.model = "real"
    return options


def _words(text: str, kind: type = str) -> tuple[Any, ...]:
    return tuple(kind(word) for word in text.split(",") if word)


def measure(bench: Bench, cores: int) -> None:
    options = bench.options
    for name in options.engines:
        for threads in ways(name, cores):
            if bench.fits(options.seconds + MODEL_SECONDS, f"{name} on {cores} cores by {threads} threads"):
                bench.add("engines", {"cores": cores, **speed(options, name, cores, threads)})
    measured = len(ENDPOINTS) * len(options.clients) * (options.seconds + 4)
    if bench.fits(START_SECONDS + measured, f"the server on {cores} cores"):
        with ExitStack() as stack:
            with on_cores(range(cores)):
                server = stack.enter_context(running(servers.REAL, bench.new_log(), KOKORO_BACKEND="onnx"))
            serve_bench.load(bench, server, Window(OURS, ENDPOINTS[0], cores), options.seconds)
            for endpoint, clients in itertools.product(ENDPOINTS, options.clients):
                serve_bench.measure_window(bench, server, Window(OURS, endpoint, clients), {"cores": cores})


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """What is started meanwhile may use these cores alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def ways(name: str, cores: int) -> list[int]:
    """Threads of each process that are tried. Ours is one process."""
    return [cores] if name == ENGINE else sorted({threads for threads in (1, 4, cores) if cores % threads == 0})


def speed(options: argparse.Namespace, name: str, cores: int, threads: int) -> dict[str, Any]:
    """Audio-seconds a second of a crowd that never pauses."""
    context = multiprocessing.get_context("spawn")
    count = cores // threads
    begin, found = context.Barrier(count), context.Queue()
    given = [
        (options, name, threads, list(range(at, at + threads)), begin, found) for at in range(0, cores, threads)
    ]  # fmt: skip
    processes = [context.Process(target=_speak_on, args=each) for each in given]
    for process in processes:
        process.start()
    answers = [found.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    seconds = max(took for _, took in answers)
    made = round(sum(audio for audio, _ in answers) / seconds, 2)
    return {"engine": name, "processes": count, "threads": threads, "audio_per_second": made}


def _speak_on(
    options: argparse.Namespace, name: str, threads: int, cores: Sequence[int], begin: Any, found: Any
) -> None:
    """In a process of its own, on these cores. Gives the seconds of audio, and those that they took."""
    os.sched_setaffinity(0, cores)
    voices = VoiceBook(options.voices)
    place = Place(options.weights, voices, threads)
    speak, rows_at_once = _ours(place) if name == ENGINE else (contenders.CONTENDERS[name](place), 1)
    clips = [_clip(voices, index) for index in range(corpus.BASIC)]
    speak(clips[0])
    begin.wait(PATIENCE)
    started = time.perf_counter()
    until, numbers = started + options.seconds, itertools.count(cores[0])

    def work(_: int) -> int:
        samples = 0
        while time.perf_counter() < until:
            samples += speak(clips[next(numbers) % len(clips)])
        return samples

    with ThreadPoolExecutor(rows_at_once) as pool:
        samples = sum(pool.map(work, range(rows_at_once)))
    found.put((samples / SAMPLE_RATE, time.perf_counter() - started))


def _ours(place: Place) -> tuple[Speak, int]:
    engine = contenders.onnx_engine(place.weights, "int8", place.threads)
    engine.warmup()
    engine.measure()  # finds out how many rows are fastest side by side
    return lambda clip: len(engine.synthesize([clip.row])[0].audio), engine.limits.parallel_calls


def _clip(voices: VoiceBook, index: int) -> Clip:
    voice = corpus.FOUR_VOICES[index % len(corpus.FOUR_VOICES)]
    phonemes = corpus.sentences()[index]["phonemes"]
    return Clip(str(index), phonemes, voice, corpus.row(voices, index, voice, index))


def ratios(results: dict[str, Any]) -> dict[str, Any]:
    """By cores: the engine to the others' best, and how much of one core's speed, times the cores, is kept."""
    best: dict[tuple[str, int], float] = {}
    for run in results["engines"]:
        key = run["engine"], run["cores"]
        best[key] = max(best.get(key, 0.0), run["audio_per_second"])
    for run in results["runs"]:
        key = f"served{run['endpoint']}", run["cores"]
        best[key] = max(best.get(key, 0.0), run["audio_per_second"])
    fewest = min((cores for _, cores in best), default=1)
    found: dict[str, dict[str, float]] = {}
    for (name, cores), made in best.items():
        figures = found.setdefault(str(cores), {})
        if alone := best.get((name, fewest)):
            figures[f"{name}, of linear"] = round(made / alone / cores * fewest, 3)
        if (other := best.get((ENGINE, cores))) and name != ENGINE:
            figures[f"{ENGINE} / {name}"] = round(other / made, 2)
    return found


if __name__ == "__main__":
    main()
