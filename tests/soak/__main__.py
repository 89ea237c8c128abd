"""A soak: every endpoint and format at random for a long time, a third abandoned, and nothing may be lost or left.

    python -m tests.soak --minutes 20
    python -m tests.soak --minutes 5 --clients 128 --model random --device cuda
    SERVER_PROCESSES=2 python -m tests.soak --minutes 20

Writes a JSON file with what was measured, prints a summary, and ends with status 1 if something is not as promised.
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
from collections.abc import Iterator
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
from tests.soak.process import Usage, usage

GROWTH_MB = 50.0
LAG_MS = 20.0
SAMPLE_EVERY = 2.0  # seconds
KEPT_SAMPLES = 20
WARM_UP = 300.0  # seconds, at most a quarter: after four minutes every pool and cache has been in use
NOTHING_TOLD: dict[str, Any] = {"lag_ms": {}, "device_memory": {}}  # by a server of several processes
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
        yield stack.enter_context(servers.running(servers.SOAK, log, **environ))


async def watch(server: Server, samples: list[dict[str, Any]]) -> None:
    started = time.monotonic()
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        while True:
            runtime = NOTHING_TOLD if servers.HAS_FRONTS else (await client.get("/test/runtime")).json()
            at = round(time.monotonic() - started, 1)
            samples.append({"at": at, **asdict(usage(server.process.pid)), **runtime})
            await asyncio.sleep(SAMPLE_EVERY)


async def idle(server: Server, no_more_than: Usage | None = None) -> Usage:
    """What the server takes when it has nothing to do; given time to come down to what it took before."""
    await asyncio.sleep(2 * QUIET)  # the server gives memory back when nothing has happened for a while
    deadline = time.monotonic() + SETTLE
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        while True:
            status = (await client.get("/health/streaming")).json()
            queue = status["batch_queue_stats"]["queue_status"]
            busy = queue["current_size"] + queue["running_rows"] + queue["preparing"] + status["streams"]["active"]
            found = usage(server.process.pid)
            if (
                not busy and (no_more_than is None or not left_over(no_more_than, found))
            ) or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.5)


def left_over(before: Usage, after: Usage) -> list[str]:
    names = ("threads", "descriptors", "processes")
    return [f"{name} {getattr(before, name)} → {getattr(after, name)}" for name in names
            if getattr(after, name) > getattr(before, name)]  # fmt: skip


async def soak(server: Server, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    warm_up = min(WARM_UP, seconds / 4)
    await load.run(server.url, options.clients, warm_up, options.seed)
    before = await idle(server)
    samples: list[dict[str, Any]] = []
    watching = asyncio.create_task(watch(server, samples))
    tally = await load.run(server.url, options.clients, seconds - warm_up, options.seed + 1)
    watching.cancel()
    after = await idle(server, no_more_than=before)
    return result(tally, samples, before, after) | {"warm_up_seconds": warm_up}


def result(tally: Tally, samples: list[dict[str, Any]], before: Usage, after: Usage) -> dict[str, Any]:
    # The first fifth is the warm-up: until every endpoint and length has had its turn on every thread, memory grows.
    fifth = max(1, len(samples) // 5)
    memory = [sample["memory_mb"] for sample in samples]
    lags = [sample["lag_ms"] for sample in samples if sample["lag_ms"]]
    lag = sorted(lag["p99"] for lag in lags)
    return {
        "sent": tally.sent,
        "answered": tally.answered,
        "abandoned": tally.abandoned,
        "lost": dict(tally.lost),
        "unexpected": tally.unexpected,
        "statuses": dict(sorted(tally.statuses.items())),
        "before": asdict(before),
        "after": asdict(after),
        "memory_growth_mb": {
            "idle": round(after.memory_mb - before.memory_mb, 1),
            "under_load": round(statistics.median(memory[-fifth:]) - statistics.median(memory[fifth:][:fifth]), 1),
        },
        "left_over": left_over(before, after),
        "lag_p99_ms": {"in_all": lags[-1]["p99_in_all"], "median of 2 s": lag[len(lag) // 2], "worst of 2 s": lag[-1]}
        if lags
        else {},
        "samples": samples,
    }


def violations(found: dict[str, Any]) -> list[str]:
    wrong = [f"lost: {what} ({count})" for what, count in found["lost"].items()]
    wrong += [f"unexpected answer: {what} ({count})" for what, count in found["unexpected"].items()]
    if found["sent"] != found["answered"] + found["abandoned"] + sum(found["lost"].values()):
        wrong.append("some requests are not accounted for")
    wrong += [f"memory grew by {mb} MB, {when}" for when, mb in found["memory_growth_mb"].items() if mb > GROWTH_MB]
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
    with tempfile.TemporaryDirectory() as folder, serving(options, Path(folder, "log")) as server:
        try:
            found = asyncio.run(soak(server, options, seconds))
        finally:
            lines = server.lines()
            options.out.with_suffix(".log").write_text(lines, encoding="utf-8")
    facts = {"clients": options.clients, "model": options.model, "device": options.device, "seconds": seconds}
    found = described() | facts | found | {"errors_in_log": log_errors(lines)}
    found["violations"] = violations(found)
    found["samples"] = found["samples"][:: -(-len(found["samples"]) // KEPT_SAMPLES)]
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name in ("seconds", "sent", "answered", "abandoned", "lost", "unexpected", "before", "after",
                 "memory_growth_mb", "left_over", "lag_p99_ms"):  # fmt: skip
        print(f"{name:<18} {found[name]}")
    if memory := found["samples"][-1]["device_memory"]:
        print(f"{'device_memory':<18} {memory}")
    print("\n".join(found["violations"]) or "all as promised")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
