"""A bulk run beside interactive streams, on one server: what each gets of it, alone and together.

    python -m benchmarks.bulk_bench [--streams 16] [--seconds 8] [--listener-seconds 24] [--out FILE]

A real server with its own G2P; the real `kokoro-server bulk --url` with as many lines as it wants, none of them twice;
and clients of `/tts/stream`, in processes of their own. They are `closed` (each asks for its next sentence as soon as
it has the last byte of the one before, so that 16 take most of a GPU by themselves) or `listeners`, who ask when what
they got has been played. Five windows, one after the other: bulk alone; streams alone, and beside bulk; listeners
alone, and beside bulk, in longer windows, as they ask for little. With a GPU it takes about four minutes.

`engine`: the audio that the engine makes in a second of the same sentences in full batches, with nothing around it,
measured before the server starts (`serving/engine_speed.py`); `share` is what bulk and streams get together by that.
The file is written after each window.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from benchmarks.serve_bench import TARGETS, settle, voices
from benchmarks.serving import engine_speed as engine
from benchmarks.serving import load
from benchmarks.serving.figures import figures
from benchmarks.serving.load import Answer, Load
from benchmarks.serving.prose import sentence
from benchmarks.serving.started import g2p_service, running
from benchmarks.serving.usage import Usage, gpu_name, nvidia_smi
from tests.servers import Server

STREAM = "/tts/stream"
FIRST_STREAM = 10_000_000  # sentences before it are bulk's
RAMP = 1.5  # seconds under load before anything counts
BULK_RAMP = 3.0  # until all processes of a bulk run ask
WARM = 4.0


@dataclass
class Bench:
    options: argparse.Namespace
    results: dict[str, Any]
    folder: Path
    pool: ProcessPoolExecutor
    sentences: int = FIRST_STREAM
    runs: list[Path] = field(default_factory=list)

    def save(self) -> None:
        self.options.out.parent.mkdir(parents=True, exist_ok=True)
        self.options.out.write_text(json.dumps(self.results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    options = parse()
    results = common.facts() | {
        "benchmark": "bulk beside streams",
        "device": (gpu_name() if options.model == "real" else None) or common.cpu_name(),
        "model": options.model,
        "streams": options.streams,
        "window_seconds": options.seconds,
        "listener_window_seconds": options.listener_seconds,
        "settings": options.env,
        "starts": [{}],
        "windows": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.client_processes, mp_context=context) as pool:
            bench = Bench(options, results, Path(folder), pool)
            settings = dict(setting.split("=", 1) for setting in options.env)
            results["engine"] = common.show("engine", engine_speed(bench, settings))
            with running(TARGETS[options.model], bench.folder / "server.log", **settings) as server:
                settle(bench, server)  # type: ignore[arg-type]
                measure(bench, server)
    bench.results["ratios"] = common.show("ratios", ratios(results["windows"], results["engine"]["audio_per_second"]))
    bench.save()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=tuple(TARGETS), default="real", help="double: only the time of an H200")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0, help="that each window lasts")
    parser.add_argument("--listener-seconds", type=float, default=24.0, help="that each window of listeners lasts")
    parser.add_argument("--kinds", default="streams,listeners", help="of those beside bulk, with commas between them")
    parser.add_argument("--lines", type=int, default=60_000, help="of a bulk run; one that ends early is an error")
    parser.add_argument("--engine-lines", type=int, default=2_048, help="whose audio the engine itself makes")
    parser.add_argument("--bulk-processes", type=int, help="that ask for bulk (default: as kokoro-server bulk has it)")
    parser.add_argument("--client-processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    parser.add_argument("--out", type=Path, default=Path("bulk_bench.json"))
    return parser.parse_args()


def engine_speed(bench: Bench, settings: dict[str, str]) -> dict[str, Any]:
    """In a process that ends before the server starts, and takes its part of the GPU's memory with it."""
    options = bench.options
    context = multiprocessing.get_context("spawn")
    with g2p_service(bench.folder / "g2p.log") as url, ProcessPoolExecutor(1, mp_context=context) as pool:
        environ = {**os.environ, **settings, "G2P_SERVICE_URL": url}
        asked = (options.model, voices(options.model), options.engine_lines, options.seconds, environ)
        return pool.submit(engine.measure, *asked).result()


def measure(bench: Bench, server: Server) -> None:
    with bulk(bench, server):  # what is compiled or recorded for new shapes is so by now
        streams(bench, server, WARM, paced=False)
    kinds = bench.options.kinds.split(",")
    for name, kind, with_bulk, paced in (
        ("bulk", None, True, None),
        ("streams", "streams", False, False),
        ("both", "streams", True, False),
        ("listeners", "listeners", False, True),
        ("bulk_and_listeners", "listeners", True, True),
    ):
        if kind is not None and kind not in kinds:
            continue
        drain(server)
        found = window(bench, server, with_bulk=with_bulk, paced=paced)
        bench.results["windows"][name] = common.show(name, found)
        bench.save()


def drain(server: Server) -> None:
    """Wait until nothing is left of what was asked for before."""
    while True:
        queue = httpx.get(f"{server.url}/health/batching", trust_env=False, timeout=60).json()["queue_status"]
        if not queue["current_size"] + queue["running_rows"]:
            return
        time.sleep(0.05)


def window(bench: Bench, server: Server, *, with_bulk: bool, paced: bool | None) -> dict[str, Any]:
    if not with_bulk:
        return measured(bench, server, None, paced=paced)
    with bulk(bench, server) as out:
        return measured(bench, server, out, paced=paced)


def measured(bench: Bench, server: Server, out: Path | None, *, paced: bool | None) -> dict[str, Any]:
    """What is made in a window, after a ramp."""
    seconds = bench.options.listener_seconds if paced else bench.options.seconds
    begin = time.monotonic() + 0.1
    start, end = begin + RAMP, begin + RAMP + seconds
    asking = [] if paced is None else ask(bench, server, begin, end, paced=paced)
    time.sleep(max(0.0, start - time.monotonic()))
    before, counted = Usage.of(server.process.pid, server.url), Made.of(out)
    with nvidia_smi() as smi:
        time.sleep(max(0.0, end - time.monotonic()))
    made, after = Made.of(out), Usage.of(server.process.pid, server.url)
    answers = [answer for each in asking for answer in each.result() if start <= answer.ended < end]
    found: dict[str, Any] = {
        "bulk_audio_per_second": round((made.seconds - counted.seconds) / (made.at - counted.at), 1)
    }
    if paced is not None:
        found["streams"] = figures(answers, seconds)
    return found | smi | after.since(before, len(answers) + made.lines - counted.lines)


def ask(bench: Bench, server: Server, begin: float, end: float, *, paced: bool) -> list[Any]:
    options = bench.options
    count = min(options.client_processes, options.streams)
    shares = [options.streams // count + (number < options.streams % count) for number in range(count)]
    loads = [
        Load(
            url=server.url,
            path=STREAM,
            voices=voices(options.model),
            first=bench.sentences + number,
            stride=count,
            known_pace=options.model == "real",
            mode="listeners" if paced else "closed",
            clients=share,
            rate=0.0,
            begin=begin,
            end=end,
            seed=number,
        )
        for number, share in enumerate(shares)
    ]
    bench.sentences += 1_000_000
    return [bench.pool.submit(load.run, each) for each in loads]


def streams(bench: Bench, server: Server, seconds: float, *, paced: bool) -> list[Answer]:
    begin = time.monotonic()
    return [answer for each in ask(bench, server, begin, begin + seconds, paced=paced) for answer in each.result()]


@contextmanager
def bulk(bench: Bench, server: Server) -> Iterator[Path]:
    """A bulk run that goes on until it is killed; its output folder."""
    number = len(bench.runs)
    source, out = bench.folder / f"in{number}.jsonl", bench.folder / f"out{number}"
    bench.runs.append(out)
    spoken, lines = voices(bench.options.model), bench.options.lines
    with source.open("w") as file:
        for line in range(number * lines, (number + 1) * lines):
            text = {"id": f"{line:08}", "text": sentence(line), "voice": spoken[line % len(spoken)]}
            file.write(json.dumps(text) + "\n")
    command = [sys.executable, "-m", "kokoro_server", "bulk", str(source), str(out), "--url", server.url]
    if bench.options.bulk_processes:
        command += ["--processes", str(bench.options.bulk_processes)]
    with (bench.folder / f"bulk{number}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=common.ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        while process.poll() is None and not Made.of(out).lines:
            time.sleep(0.05)
        time.sleep(BULK_RAMP)
        yield out
        if process.poll() is not None:
            raise RuntimeError((bench.folder / f"bulk{number}.log").read_text()[-2000:] or "bulk ended; more --lines")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
        process.wait()


@dataclass(frozen=True, slots=True)
class Made:
    """What a bulk run has made so far, by its journal."""

    at: float
    lines: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, out: Path | None) -> Made:
        at = time.monotonic()
        path = out / ".bulk" / "journal" if out else None
        if path is None or not path.exists():
            return cls(at)
        lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        if any(line.startswith(b"-") for line in lines):
            raise RuntimeError(next(line for line in lines if line.startswith(b"-")).decode())
        return cls(at, len(lines), sum(json.loads(line.split(b" ", 2)[2])["duration"] for line in lines))


def ratios(windows: dict[str, Any], engine: float) -> dict[str, float | None]:
    found: dict[str, float | None] = {"bulk_by_engine": round(windows["bulk"]["bulk_audio_per_second"] / engine, 3)}
    for kind, together in (("streams", "both"), ("listeners", "bulk_and_listeners")):
        if together not in windows:
            continue
        made = windows[together]["bulk_audio_per_second"]
        total = made + windows[together]["streams"]["audio_per_second"]
        waits = [windows[name]["streams"]["first_audio_ms"]["p95"] for name in (together, kind)]
        found |= {
            f"bulk_beside_{kind}_by_engine": round(made / engine, 3),
            f"share_beside_{kind}": round(total / engine, 3),
            f"first_audio_p95_of_{kind}": round(waits[0] / waits[1], 2) if all(waits) else None,
        }
    return found


if __name__ == "__main__":
    main()
