"""The whole server over real HTTP under load, and beside it, in the same run, a server that takes one at a time.

    python -m benchmarks.serve_bench [--processes 0,1] [--parts plain,serve,beside,start] [--quick] [--out FILE]

Real server processes with their own G2P, real sockets, clients in processes of their own. No sentence is asked for
twice in a run (`serving/prose.py`). An answer counts if its status is 200 and its audio is whole and plausibly long;
all others are errors. How busy the device was is by its own clock (`/health/batching`), and by nvidia-smi beside it;
the CPU is that of every process of the server, and of the clients.

The file is written after each measurement. What no longer fits into `--limit` seconds is left out, and named.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from benchmarks.serving import plain
from benchmarks.serving.figures import ONE_AT_A_TIME, OURS, figures, ratios
from benchmarks.serving.load import Answer, Load, Mode
from benchmarks.serving.load import run as run_load
from benchmarks.serving.prose import PATTERNS, sentence
from benchmarks.serving.started import g2p_service, running
from benchmarks.serving.usage import Usage, gpu_name, nvidia_smi
from tests import servers
from tests.servers import Server

PARTS = ("plain", "serve", "beside", "start")
ENDPOINTS = ("/tts", "/tts/stream", "/v1/audio/speech")
VOICES = ("af_heart", "am_michael", "bf_emma")
TINY_VOICES = ("af_heart", "am_adam", "bf_emma")
TARGETS = {
    "real": servers.REAL,
    "tiny": servers.TINY,
    "double": ("-m", "benchmarks.serving.targets", "double"),
}
COMPILED = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")  # folders that a first start fills
RAMP = 0.7  # seconds under load before anything counts
RAMP_EACH = 1 / 128  # more for every client: they all begin at once, and it takes a while until that has worn off
SLOW_RAMP = 3.0  # where requests take seconds
WARM_CLIENTS = 64
LONE = 10  # requests after a start, one after the other
LONE_PATTERN = 4  # of `prose`, so that they are of about the same length
SETTLE_SECONDS = 40  # at most; by then what is left is not worth waiting for
START_SECONDS = 45  # that a server which has been started before may take
FIRST_START_SECONDS = 75
QUICK = {"seconds": 2.0, "clients": (1, 64, 128), "parts": ("plain", "serve"), "endpoints": ENDPOINTS[:2]}


@dataclass(frozen=True, slots=True)
class Window:
    """One measurement. `rate` in requests a second, for arrivals that do not wait; `clients` for the closed loop."""

    server: str
    endpoint: str
    clients: int = 0
    rate: float | None = None

    @property
    def mode(self) -> Mode:
        return "poisson" if self.rate else "closed"


@dataclass
class Bench:
    options: argparse.Namespace
    results: dict[str, Any]
    folder: Path
    pool: ProcessPoolExecutor
    until: float
    numbers: int = 0  # sentences that have been used up
    logs: Iterator[int] = field(default_factory=itertools.count)

    def save(self) -> None:
        path: Path = self.options.out
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def new_log(self) -> Path:
        return self.folder / f"server{next(self.logs)}.log"

    def fits(self, seconds: float, what: str) -> bool:
        """Whether there is time left for it; otherwise it is named in the results."""
        if time.monotonic() + seconds <= self.until:
            return True
        self.results["left_out"].append(common.show("left_out", what))
        self.save()
        return False

    def add(self, kind: str, found: dict[str, Any]) -> None:
        self.results[kind].append(common.show(kind, found))
        self.save()


def main() -> None:
    options = parse()
    results = common.facts() | {
        "benchmark": "serve",
        "device": gpu_name() if options.model == "real" else None,
        "model": options.model,
        "g2p": "the server's own",
        "sentences": "no two alike; see benchmarks/serving/prose.py",
        "voices": len(voices(options.model)),
        "client_processes": options.client_processes,
        "settings": options.env,
        "window_seconds": options.seconds,
        "forms": list(options.processes),  # values of SERVER_PROCESSES; the first is what the README shows
        "plain_model": None,
        "starts": [],
        "runs": [],
        "left_out": [],
    }
    results["device"] = results["device"] or ("double" if options.model == "double" else common.cpu_name())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        pool = stack.enter_context(ProcessPoolExecutor(options.client_processes, mp_context=context))
        bench = Bench(options, results, Path(folder), pool, time.monotonic() + options.limit)
        bench.save()
        list(pool.map(time.sleep, [0.5] * options.client_processes))  # now they have started
        measure(bench)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=tuple(TARGETS), default="real", help="double: only the time of an H200")
    parser.add_argument("--processes", type=_numbers, default=(0,), help="values of SERVER_PROCESSES to measure")
    parser.add_argument("--parts", type=_words, default=PARTS, help=f"of {','.join(PARTS)}")
    parser.add_argument("--endpoints", type=_words, default=ENDPOINTS)
    parser.add_argument("--clients", type=_numbers, default=(1, 16, 64, 128, 256))
    parser.add_argument("--beside-clients", type=_numbers, default=(1, 16, 64), help="of the one-at-a-time server")
    parser.add_argument("--rates", type=_numbers, default=(), help="requests a second that come when they come")
    parser.add_argument("--seconds", type=float, default=5.0, help="that each measurement lasts")
    parser.add_argument("--warm", type=float, default=4.0, help="seconds of load on each endpoint before the first")
    parser.add_argument("--client-processes", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a setting of our server")
    parser.add_argument("--limit", type=float, default=530.0, help="seconds after which nothing more is begun")
    parser.add_argument("--quick", action="store_true", help="short windows, few clients, nothing beside")
    parser.add_argument("--out", type=Path, default=Path("serve_bench.json"))
    options = parser.parse_args()
    if options.quick:
        vars(options).update(
            {name: value for name, value in QUICK.items() if getattr(options, name) == parser.get_default(name)}
        )
    return options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def voices(model: str) -> tuple[str, ...]:
    return VOICES if model == "real" else TINY_VOICES


def measure(bench: Bench) -> None:
    parts: dict[str, Callable[[Bench], None]] = {
        "plain": measure_plain, "serve": measure_ours, "beside": measure_beside, "start": measure_starts
    }  # fmt: skip
    for name in PARTS:
        if name in bench.options.parts:
            parts[name](bench)
    bench.results["ratios"] = common.show("ratios", ratios(bench.results))
    bench.save()


def measure_plain(bench: Bench) -> None:
    """In a process that ends before the servers start, and takes its part of the GPU's memory with it."""
    if not bench.fits(30, "plain model"):
        return
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        model = "real" if bench.options.model == "real" else "tiny"
        bench.results["plain_model"] = common.show("plain_model", pool.submit(plain.measure, model).result())
    bench.save()


def measure_ours(bench: Bench) -> None:
    options = bench.options
    for form in options.processes:
        endpoints = options.endpoints if form == options.processes[0] else options.endpoints[:2]
        windows = [Window(OURS, endpoint, clients) for endpoint in endpoints for clients in options.clients]
        windows += [Window(OURS, endpoint, rate=rate) for endpoint in endpoints for rate in options.rates]
        if not bench.fits(START_SECONDS, f"SERVER_PROCESSES={form}"):
            continue
        with ours(bench, form, "as found") as server:
            settle(bench, server)
            if options.warm:
                for endpoint in options.endpoints[:2]:
                    load(bench, server, Window(OURS, endpoint, min(WARM_CLIENTS, max(options.clients))), options.warm)
            for window in windows:
                measure_window(bench, server, window, {"processes": form})


def settle(bench: Bench, server: Server) -> None:
    """Wait until a device that works for later requests while it is idle has done so; that takes some seconds."""
    started = time.monotonic()
    while time.monotonic() < started + SETTLE_SECONDS:
        devices = httpx.get(f"{server.url}/health/batching", trust_env=False, timeout=60).json().get("devices", [])
        if not any(device.get("resources", {}).get("graphs_pending") for device in devices):
            break
        time.sleep(0.2)
    bench.results["starts"][-1]["settled_s"] = round(time.monotonic() - started, 1)
    bench.save()


def measure_beside(bench: Bench) -> None:
    """The server that takes one at a time, with the same G2P service."""
    if not bench.fits(START_SECONDS, ONE_AT_A_TIME):
        return
    model = "real" if bench.options.model == "real" else "tiny"
    target = ("-m", "benchmarks.serving.targets", "one-at-a-time", "--model", model)
    with g2p_service(bench.new_log()) as url, running(target, bench.new_log(), G2P_SERVICE_URL=url) as server:
        lone(bench, server)
        for endpoint, clients in itertools.product(bench.options.endpoints[:2], bench.options.beside_clients):
            measure_window(bench, server, Window(ONE_AT_A_TIME, endpoint, clients), {})


def measure_starts(bench: Bench) -> None:
    """The first start, with nothing compiled yet, and the second."""
    form = bench.options.processes[0]
    folders = {name: str(bench.folder / name.lower()) for name in COMPILED}
    for caches, seconds in (("empty", FIRST_START_SECONDS), ("filled", START_SECONDS)):
        if not bench.fits(seconds, f"start with {caches} caches"):
            return
        with ours(bench, form, caches, **folders):
            pass


@contextmanager
def ours(bench: Bench, form: int, caches: str, **environ: str) -> Iterator[Server]:
    """Our server, with a note of how long it took to start and what its first requests took."""
    settings = dict(setting.split("=", 1) for setting in bench.options.env)
    started = time.monotonic()
    target = TARGETS[bench.options.model]
    with running(target, bench.new_log(), **environ, **settings, SERVER_PROCESSES=str(form)) as server:
        ready = time.monotonic() - started
        times = lone(bench, server)
        found = {"processes": form, "caches": caches, "ready_s": round(ready, 2), "requests_ms": times}
        bench.add("starts", found)
        yield server


def lone(bench: Bench, server: Server) -> list[float]:
    """The milliseconds of a few requests, one after the other."""
    found = []
    with httpx.Client(trust_env=False, timeout=300) as client:
        client.get(f"{server.url}/health")  # the connection is there
        for _ in range(LONE):
            number = bench.numbers - bench.numbers % len(PATTERNS) + len(PATTERNS) + LONE_PATTERN
            bench.numbers = number + 1
            started = time.perf_counter()
            body = {"text": sentence(number), "voice": voices(bench.options.model)[0]}
            client.post(f"{server.url}/tts", json=body).raise_for_status()
            found.append(round(1000 * (time.perf_counter() - started), 1))
    return found


def measure_window(bench: Bench, server: Server, window: Window, form: dict[str, Any]) -> None:
    slow = window.server == ONE_AT_A_TIME and window.clients > 4
    ramp = SLOW_RAMP if slow else max(RAMP, RAMP_EACH * window.clients)
    facts = {"server": window.server, **form, "endpoint": window.endpoint, "mode": window.mode}
    facts |= {"clients": window.clients or None, "rate": window.rate}
    if not bench.fits(ramp + bench.options.seconds + 2 * slow * ramp, " ".join(str(fact) for fact in facts.values())):
        return
    usages: list[Usage] = []
    smi: dict[str, float] = {}

    def watch(start: float, end: float) -> None:
        time.sleep(max(0.0, start - time.monotonic()))
        usages.append(Usage.of(server.process.pid, server.url))
        with nvidia_smi() as seen:
            time.sleep(max(0.0, end - time.monotonic()))
        usages.append(Usage.of(server.process.pid, server.url))
        smi.update(seen)

    begin = time.monotonic() + 0.1
    start, end = begin + ramp, begin + ramp + bench.options.seconds
    answers = load(bench, server, window, bench.options.seconds + ramp, begin, lambda: watch(start, end))
    inside = [answer for answer in answers if start <= answer.ended < end]
    used = usages[1].since(usages[0], len(inside))
    bench.add("runs", facts | figures(inside, bench.options.seconds) | smi | used)


def load(
    bench: Bench,
    server: Server,
    window: Window,
    seconds: float,
    begin: float | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Answer]:
    """The answers to a window's clients, each process with its share of them."""
    begin = time.monotonic() if begin is None else begin
    count = bench.options.client_processes
    count = min(count, window.clients) if window.mode == "closed" else count
    shares = [window.clients // count + (number < window.clients % count) for number in range(count)]
    loads = [
        Load(
            url=server.url,
            path=window.endpoint,
            voices=voices(bench.options.model),
            first=bench.numbers + number,
            stride=count,
            known_pace=bench.options.model == "real",
            mode=window.mode,
            clients=share,
            rate=(window.rate or 0) / count,
            begin=begin,
            end=begin + seconds,
            seed=number,
        )
        for number, share in enumerate(shares)
    ]
    working = [bench.pool.submit(run_load, each) for each in loads]
    meanwhile()
    answers = [work.result() for work in working]
    bench.numbers += count * max(len(found) for found in answers)
    return [answer for found in answers for answer in found]


if __name__ == "__main__":
    main()
