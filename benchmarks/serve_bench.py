"""The whole server over real HTTP under load, and beside it, in the same run, a server that takes one at a time.

    python -m benchmarks.serve_bench [--model real|tiny|double] [--seconds 3] [--out FILE]

Real server processes, real sockets, clients in processes of their own. `closed`: each client sends its next request
when the last is answered; `poisson`: requests come when they come. An answer counts if its status is 200 and its audio
is whole and as long as it should be; all others are counted as errors. With `double` the engine only takes the time
that an H200 takes, which shows what the server itself can do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common, serve_targets
from benchmarks.serve_figures import Usage, figures, ratios
from benchmarks.serve_load import SAMPLE_RATE, Answer, Load, Mode, Question
from benchmarks.serve_load import run as run_load
from tests import servers
from tests.servers import Server

SENTENCES = common.ROOT / "tests" / "data" / "sentences.json"
VOICES = ("af_heart", "am_michael", "bf_emma")
TINY_VOICES = ("af_heart", "am_adam", "bf_emma")
LANGUAGES = ("en-US", "en-GB")
RAMP = 0.7  # seconds under load before anything counts
RAMP_EACH = 1 / 128  # more for every client: they all begin at once, and it takes a while until that has worn off
SLOW_RAMP = 3.0  # where requests take seconds
ENDPOINTS = ("/tts", "/tts/stream", "/v1/audio/speech")
PLAIN_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement. `rate` in requests a second, for Poisson arrivals; `clients` for the closed loop."""

    server: str
    endpoint: str
    mode: Mode = "closed"
    clients: int = 0
    rate: float | None = None
    input: str = "text"


def plan(clients: Sequence[int], plain: Sequence[int], rates: Sequence[float]) -> list[Run]:
    ours = [Run("kokoro-server", endpoint, clients=count) for endpoint in ENDPOINTS for count in clients]
    ours += [Run("kokoro-server", "/tts", clients=count, input="phonemes") for count in clients[-3:]]
    ours += [Run("kokoro-server", endpoint, "poisson", rate=rate) for endpoint in ENDPOINTS[:2] for rate in rates]
    return ours + [Run("one-at-a-time", endpoint, clients=count) for endpoint in ENDPOINTS for count in plain]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("real", "tiny", "double"), default="real")
    parser.add_argument("--weights", type=Path, help="a converted safetensors file; by default the cache's")
    parser.add_argument("--voices", type=Path, help="a folder of voice packs; by default the cache's")
    parser.add_argument("--g2p", choices=("table", "real"), default="table", help="what turns text into phonemes")
    parser.add_argument("--seconds", type=float, default=3.0, help="that each measurement lasts")
    parser.add_argument("--warm", type=float, default=0.0, help="seconds of each load before, to record CUDA graphs")
    parser.add_argument("--devices", help="KOKORO_DEVICES for the server")
    parser.add_argument("--clients", type=_numbers, default=(1, 4, 16, 64, 128, 256))
    parser.add_argument("--plain-clients", type=_numbers, default=(1, 4, 16, 64), help="'': leave that server out")
    parser.add_argument("--rates", type=_numbers, default=(50, 200, 400))
    parser.add_argument("--only", help="a regular expression for 'server endpoint', to measure less")
    parser.add_argument("--processes", type=int, default=min(8, multiprocessing.cpu_count()), help="of clients")
    parser.add_argument("--out", type=Path, default=Path("serve_bench.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    try:
        measure(options, results)
    finally:
        common.write(options.out, results)


def measure(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Fills `results` as it goes."""
    runs = plan(options.clients, options.plain_clients, options.rates)
    if options.only:
        runs = [run for run in runs if re.search(options.only, f"{run.server} {run.endpoint}")]
    results |= {
        "benchmark": "serve",
        "device": device(options.model),
        "model": options.model,
        "g2p": options.g2p,
        "sentences": {"texts": len(texts()), "voices": len(voices(options.model))},
        "client_processes": options.processes,
        "devices": options.devices,
        "plain_model": common.show("plain_model", plain_model(options)) if options.plain_clients else None,
        "runs": [],
    }
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        pool = stack.enter_context(ProcessPoolExecutor(options.processes, mp_context=context))
        list(pool.map(time.sleep, [0.5] * options.processes))  # now they have started
        g2p = {}
        if options.g2p == "table":
            table = stack.enter_context(servers.running(_target("g2p-table", options), Path(folder) / "g2p.log"))
            g2p["G2P_SERVICE_URL"] = table.url
        for name, group in itertools.groupby(runs, key=lambda run: run.server):
            devices = {"KOKORO_DEVICES": options.devices} if options.devices and name == "kokoro-server" else {}
            log = Path(folder) / f"{name}.log"
            with servers.running(_target(name, options), log, **g2p, **devices) as server, told(log):
                asked = questions(server.url, voices(options.model))
                if name == "kokoro-server" and options.warm:
                    warm(server, asked, pool, options)
                for run in group:
                    results["runs"].append(common.show("run", measured(run, server, asked, pool, options)))
    results["ratios"] = common.show("ratios", ratios(results))


@contextmanager
def told(log: Path) -> Iterator[None]:
    """When something fails, show what the server said last."""
    try:
        yield
    except BaseException:
        print(*log.read_text(errors="replace").splitlines()[-40:], sep="\n", flush=True)
        raise


def _target(name: str, options: argparse.Namespace) -> tuple[str, ...]:
    found = ["-m", "benchmarks.serve_targets", name, "--model", options.model]
    for option in ("weights", "voices"):
        if path := getattr(options, option):
            found += [f"--{option}", str(path)]
    return tuple(found)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def device(model: str) -> str:
    if model == "double":
        return "double"
    import torch

    return torch.cuda.get_device_name() if model == "real" and torch.cuda.is_available() else common.cpu_name()


def sentences() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(SENTENCES.read_text(encoding="utf-8"))
    return found


def texts() -> list[str]:
    return [entry["text"] for entry in sentences()]


def voices(model: str) -> tuple[str, ...]:
    return VOICES if model == "real" else TINY_VOICES


def plain_model(options: argparse.Namespace) -> dict[str, Any]:
    """`kokoro.KModel` in this process, one call after the other, no server."""
    from kokoro_server.config import Settings

    with tempfile.TemporaryDirectory() as folder:
        model, book = serve_targets.plain_model(options, Settings.load(dotenv=None), Path(folder))
        spoken = [(entry["phonemes"], voice) for entry in sentences()[:20] for voice in voices(options.model)[:1]]
        times, lengths = [], []
        for phonemes, voice in spoken[:3] + spoken * PLAIN_ROUNDS:
            started = time.perf_counter()
            lengths.append(len(serve_targets.speak(model, book, phonemes, voice)) / SAMPLE_RATE)
            times.append(time.perf_counter() - started)
    times, lengths = times[3:], lengths[3:]  # the first are slower
    return {
        "calls": len(times),
        "audio_per_second": round(sum(lengths) / sum(times), 1),
        "call_ms": round(1000 * statistics.median(times), 2),
        "clip_seconds": round(statistics.mean(lengths), 3),
    }


def questions(url: str, spoken_by: Sequence[str]) -> dict[str, list[Question]]:
    """What is asked by endpoint and input; each text was asked for once, alone, to know the length of its audio."""
    found: dict[str, list[Question]] = {"/tts": [], "/tts phonemes": [], "/v1/audio/speech": []}
    with httpx.Client(timeout=300, trust_env=False) as client:
        for (number, entry), voice in itertools.product(enumerate(sentences()), spoken_by):
            body = {"text": entry["text"], "voice": voice}
            if number % len(spoken_by) == spoken_by.index(voice):  # every text in some voice, every voice
                answer = client.post(f"{url}/tts", json=body).raise_for_status()
                seconds = (len(answer.content) - 44) / 2 / SAMPLE_RATE
                found["/tts"].append(Question(body, seconds))
                found["/tts phonemes"].append(Question({"phonemes": entry["phonemes"], "voice": voice}))
                speech = {"input": entry["text"], "voice": voice, "response_format": "wav"}
                found["/v1/audio/speech"].append(Question(speech, seconds))
    return found | {"/tts/stream": found["/tts"]}


def warm(
    server: Server, asked: dict[str, list[Question]], pool: ProcessPoolExecutor, options: argparse.Namespace
) -> None:
    for endpoint, clients in itertools.product(ENDPOINTS[:2], options.clients):
        begin = time.monotonic()
        run = Run("kokoro-server", endpoint, clients=clients)
        for work in started(run, server, asked, pool, options, begin, begin + options.warm):
            work.result()


def started(
    run: Run,
    server: Server,
    asked: dict[str, list[Question]],
    pool: ProcessPoolExecutor,
    options: argparse.Namespace,
    begin: float,
    end: float,
) -> list[Future[list[Answer]]]:
    """The clients of a run, each process with its share of them."""
    processes = min(options.processes, run.clients) if run.mode == "closed" else options.processes
    wanted = asked[run.endpoint if run.input == "text" else f"{run.endpoint} {run.input}"]
    shares = [run.clients // processes + (number < run.clients % processes) for number in range(processes)]
    loads = [
        Load(server.url, run.endpoint, wanted, run.mode, share, (run.rate or 0) / processes, begin, end, seed)
        for seed, share in enumerate(shares)
    ]
    return [pool.submit(run_load, load) for load in loads]


def measured(
    run: Run, server: Server, asked: dict[str, list[Question]], pool: ProcessPoolExecutor, options: argparse.Namespace
) -> dict[str, Any]:
    ramp = SLOW_RAMP if run.server == "one-at-a-time" and run.clients > 4 else max(RAMP, RAMP_EACH * run.clients)
    begin = time.monotonic() + 0.1
    start, end = begin + ramp, begin + ramp + options.seconds
    working = started(run, server, asked, pool, options, begin, end)
    time.sleep(max(0.0, start - time.monotonic()))
    before = Usage.of(server)
    time.sleep(max(0.0, end - time.monotonic()))
    after = Usage.of(server)
    answers = [answer for work in working for answer in work.result()]
    inside = [answer for answer in answers if start <= answer.ended < end]
    used = after.since(before)
    per_request = 1000 * (used["loop_cpu_share"] or 0.0) * (end - start) / len(inside) if inside else None
    loop = {"loop_ms_per_request": None if per_request is None else round(per_request, 3)}
    return _facts(run) | figures(inside, end - start) | used | loop


def _facts(run: Run) -> dict[str, Any]:
    return {
        "server": run.server,
        "endpoint": run.endpoint,
        "mode": run.mode,
        "clients": run.clients or None,
        "rate": run.rate,
        "input": run.input,
    }


if __name__ == "__main__":
    main()
