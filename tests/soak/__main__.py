"""A soak: every endpoint and format at random for a long time, a third abandoned, and nothing may be lost or left.

    python -m tests.soak --minutes 60 --model real
    python -m tests.soak --minutes 10 --clients 128 --model random --device cuda
    SERVER_PROCESSES=2 python -m tests.soak --minutes 20

Writes a JSON file with what was measured, after each fifth of the time, prints a summary in the end, and ends with
status 1 if something is not as promised. Memory must be flat: at rest after the last fifth of the time, no process
may hold more than 2 % more than after the first fifth. What is held under load hangs on the requests of the moment;
it is in the file too. The fifths are those of the time after the warm-up, in which every pool and cache comes into
use: each kind of request a few times, whose first one loads or makes what the next ones find, and then five minutes,
or a quarter of a run that is shorter than twenty.
Without the real G2P (`--g2p fake`, and wherever misaki is not installed) a service of the tests makes the phonemes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from kokoro_server.runtime.event_loop import QUIET
from tests import servers
from tests.faults.machine import described
from tests.servers import Server
from tests.services import fake_g2p
from tests.soak import load
from tests.soak.load import Tally
from tests.soak.process import memory, processes, usage

PARTS = 5  # after each of which the server has nothing to do for a moment
MOST_GROWTH = 1.02  # from the first part to the last, of what a process holds at rest
LAG_MS = 20.0
SAMPLE_EVERY = 2.0  # seconds
KEPT_SAMPLES = 20
SHOWN_SAMPLES = 15  # from one line to the next, while it runs
WARM_UP = 300.0  # seconds, at most a quarter: after four minutes every pool and cache has been in use
NOTHING_SEEN: dict[str, Any] = {"lag_ms": {}, "device_memory": {}, "heap": {}}  # of a server of several processes
COUNTED = ("threads", "descriptors")
Holding = dict[str, dict[str, float]]  # numbers by their names, by what processes do
LOOKS = 3  # at what is held at rest
SETTLE = 90.0  # seconds for threads, processes and descriptors to be given back


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=20.0)
    length.add_argument("--seconds", type=float)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--model", choices=("tiny", "random", "real"), default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--g2p", choices=("auto", "real", "fake"), default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("soak.json"))
    return parser.parse_args()


@contextlib.contextmanager
def serving(options: argparse.Namespace, log: Path) -> Iterator[Server]:
    fake = options.g2p == "fake" or (options.g2p == "auto" and importlib.util.find_spec("misaki") is None)
    environ = {"SOAK_MODEL": options.model, "KOKORO_DEVICE": options.device, "QUEUE_TIMEOUT": "120"}
    if options.model != "real":
        quick = options.model == "tiny" and importlib.util.find_spec("onnxruntime") is not None
        environ["KOKORO_BACKEND"] = "onnx" if quick else "torch"
    with contextlib.ExitStack() as stack:
        if fake:
            environ["G2P_SERVICE_URL"] = stack.enter_context(fake_g2p.running())
        environ["VOICES_PATH"] = str(log.parent / "voices")
        Path(environ["VOICES_PATH"]).mkdir()
        environ["WYOMING_PORT"] = str(servers.free_port())
        yield stack.enter_context(servers.running(servers.SOAK, log, **environ))


async def watch(server: Server, samples: list[dict[str, Any]]) -> None:
    started = time.monotonic() - (samples[-1]["at"] if samples else 0)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        while True:
            runtime = await seen_inside(client)
            held = await asyncio.to_thread(memory, server.process.pid)
            samples.append({"at": round(time.monotonic() - started, 1), "memory_mb": held, **runtime})
            if len(samples) % SHOWN_SAMPLES == 1:
                print(f"{samples[-1]['at']:>6g} s  {held}", flush=True)
            await asyncio.sleep(SAMPLE_EVERY)


async def seen_inside(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/test/runtime")
    runtime: dict[str, Any] = answer.json() if answer.is_success else NOTHING_SEEN
    return runtime


async def heap(server: Server) -> dict[str, float]:
    """What the one process has of the memory that it holds."""
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        found: dict[str, float] = (await seen_inside(client))["heap"]
        return found


async def idle(server: Server, no_more_than: Holding | None = None) -> Holding:
    """What the server holds when it has nothing to do; given time to come down to what it held before."""
    await asyncio.sleep(2 * QUIET)  # the server gives memory back when nothing has happened for a while
    deadline = time.monotonic() + SETTLE
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        while True:
            status = (await client.get("/health/streaming")).json()
            queue = status["batch_queue_stats"]["queue_status"]
            busy = queue["current_size"] + queue["running_rows"] + queue["preparing"] + status["streams"]["active"]
            found = holding(server.process.pid)
            if (
                not busy and (no_more_than is None or not left_over(no_more_than, found))
            ) or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.5)


async def least_memory(server: Server) -> dict[str, float]:
    """Of a few looks: where others use the cores, memory is given back late."""
    looks = list[dict[str, float]]()
    for _ in range(LOOKS):
        await asyncio.sleep(QUIET)
        looks.append(await asyncio.to_thread(memory, server.process.pid))
    return {name: min(look.get(name, 0.0) for look in looks) for name in looks[0]}


def holding(server: int) -> Holding:
    """Of all processes with the same task together, and how many they are."""
    found: Holding = {}
    for name, pids in processes(server).items():
        each = [asdict(used) for pid in pids if (used := usage(pid))]
        found[name] = {"processes": len(each)} | {what: sum(used[what] for used in each) for what in COUNTED}
    return found


def left_over(before: Holding, after: Holding) -> list[str]:
    """What processes have kept. Each may have one more of anything: pools begin a thread when they first need it."""
    return [
        f"{name}: {what} {before[name][what]:g} → {count:g}"
        for name, counts in after.items()
        for what, count in counts.items()
        if count > before[name][what] + (before[name]["processes"] if what in COUNTED else 0)
    ]


async def soak(
    server: Server, options: argparse.Namespace, seconds: float, save: Callable[[dict[str, Any]], object]
) -> None:
    """What is found is saved after each part: a run that is broken off was not for nothing."""
    warm_up = min(WARM_UP, seconds / 4)
    await load.all_kinds(server, options.seed)
    await load.run(server, options.clients, warm_up, options.seed)
    before, after = await idle(server), Holding()
    tally, samples, at_rest, heaps = Tally(), list[dict[str, Any]](), list[dict[str, float]](), list[dict[str, float]]()
    for part in range(PARTS):
        watching = asyncio.create_task(watch(server, samples))
        await load.run(server, options.clients, (seconds - warm_up) / PARTS, options.seed + 1 + part, tally)
        watching.cancel()
        after = await idle(server, no_more_than=before if part == PARTS - 1 else None)
        at_rest.append(await least_memory(server))
        heaps.append(await heap(server))
        print(f"at rest   {at_rest[-1]}   {heaps[-1]}", flush=True)
        found = {"at_rest_mb": {name: [each.get(name, 0.0) for each in at_rest] for name in at_rest[0]}}
        found |= {"heap_at_rest": {name: [each[name] for each in heaps] for name in heaps[0]}}
        found |= {"parts": part + 1, "of_parts": PARTS, "warm_up_seconds": warm_up}
        save(result(tally, samples, before, after) | found)


def result(tally: Tally, samples: list[dict[str, Any]], before: Holding, after: Holding) -> dict[str, Any]:
    lags = [sample["lag_ms"] for sample in samples if sample["lag_ms"]]
    lag = sorted(lag["p99"] for lag in lags)
    return {
        "sent": tally.sent,
        "answered": tally.answered,
        "abandoned": tally.abandoned,
        "lost": dict(tally.lost),
        "unexpected": tally.unexpected,
        "said": tally.said,
        "statuses": dict(sorted(tally.statuses.items())),
        "before": before,
        "after": after,
        "memory_mb": fifths([sample["memory_mb"] for sample in samples]),
        "left_over": left_over(before, after),
        "lag_p99_ms": {"in_all": lags[-1]["p99_in_all"], "median of 2 s": lag[len(lag) // 2], "worst of 2 s": lag[-1]}
        if lags
        else {},
        "samples": samples,
    }


def fifths(series: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """What each process holds in the first fifth of the time, and in the last: the median of each."""
    length = max(1, len(series) // 5)
    first, last = series[:length], series[-length:]
    return {
        name: {
            "first": round(statistics.median(sample.get(name, 0.0) for sample in first), 1),
            "last": round(statistics.median(sample.get(name, 0.0) for sample in last), 1),
        }
        for name in series[0]
    }


def violations(found: dict[str, Any]) -> list[str]:
    wrong = [f"lost: {what} ({count})" for what, count in found["lost"].items()]
    wrong += [f"unexpected answer: {what} ({count})" for what, count in found["unexpected"].items()]
    if found["sent"] != found["answered"] + found["abandoned"] + sum(found["lost"].values()):
        wrong.append("some requests are not accounted for")
    wrong += [
        f"memory of {name} at rest: {held[0]} → {held[-1]} MB"
        for name, held in found["at_rest_mb"].items()
        if held[-1] > MOST_GROWTH * held[0]
    ]
    wrong += [f"not given back: {what}" for what in found["left_over"]]
    if (lag := found["lag_p99_ms"].get("in_all", 0)) > LAG_MS:
        wrong.append(f"event loop late by {lag} ms at p99, more than {LAG_MS:g}")
    wrong += found["errors_in_log"]
    return wrong


def log_errors(lines: str) -> list[str]:
    return [f"in the log: {line}" for line in lines.splitlines() if "Traceback" in line or " CRITICAL " in line][:5]


def main() -> int:
    options = arguments()
    seconds = options.seconds or 60 * options.minutes
    facts = {"clients": options.clients, "model": options.model, "device": options.device, "seconds": seconds}
    found: dict[str, Any] = {}

    def save(measured: dict[str, Any]) -> None:
        found.update(described() | facts | measured | {"errors_in_log": log_errors(server.lines())})
        found["violations"] = violations(found)
        found["samples"] = found["samples"][:: -(-len(found["samples"]) // KEPT_SAMPLES)]
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder, serving(options, Path(folder, "log")) as server:
        try:
            asyncio.run(soak(server, options, seconds, save))
        finally:
            options.out.with_suffix(".log").write_text(server.lines(), encoding="utf-8")
    for name in ("seconds", "sent", "answered", "abandoned", "lost", "unexpected", "before", "after",
                 "memory_mb", "at_rest_mb", "left_over", "lag_p99_ms"):  # fmt: skip
        print(f"{name:<18} {found[name]}")
    if memory := found["samples"][-1]["device_memory"]:
        print(f"{'device_memory':<18} {memory}")
    print("\n".join(found["violations"]) or "all as promised")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
