"""Starts as a user has them: from the command to the first answer.

    python -m benchmarks.start_bench [--device cpu|cuda] [--backend auto|torch|onnx] [--rounds 3] [--model real|tiny]
        [--drop-caches] [--no-reload] [--out FILE]

Each round starts the server twice. Before the cold start, nothing of the model and of Python's packages is in the page
cache: with --drop-caches, for root alone, nothing of any file. Without it, what other processes have open stays. The
warm start follows, with all files in memory. The first request is sent as soon as the port takes it, which is before
the model is there, so it waits for all of the start.

Then, unless --no-reload: how long a request waits after the model was unloaded.
"""

from __future__ import annotations

import argparse
import os
import site
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from benchmarks.serving.prose import PATTERNS, sentence
from kokoro_server.config.settings import Settings
from tests import servers

REQUESTS = 10
PATTERN = 4  # of `prose`, so that all sentences are of about the same length
IDLE = 3  # seconds after which the model is unloaded
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
PATIENCE = 600.0  # seconds
POLL = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="as KOKORO_DEVICE")
    parser.add_argument("--backend", default="auto", choices=("auto", "torch", "onnx"))
    parser.add_argument("--model", default="real", choices=("real", "tiny"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drop-caches", action="store_true", help="drop the whole machine's page cache: root alone")
    parser.add_argument("--no-reload", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    environ = {"KOKORO_DEVICE": options.device, "KOKORO_BACKEND": options.backend}
    target = servers.REAL if options.model == "real" else servers.TINY
    if options.model == "real":
        with started(target, environ):  # what is missing is fetched and built, kernels are compiled
            pass
    starts: dict[str, list[dict[str, Any]]] = {"cold": [], "warm": []}
    for _ in range(options.rounds):
        for kind, found in starts.items():
            if kind == "cold":
                forget_files(everything=options.drop_caches)
            with started(target, environ) as (_, figures):
                found.append(common.show(kind, figures))
    given = {name: getattr(options, name) for name in ("device", "backend", "model", "rounds", "drop_caches")}
    results: dict[str, Any] = {
        "benchmark": "start",
        **given,
        **{kind: summary(found) for kind, found in starts.items()},
    }
    if not options.no_reload:
        results["reload"] = common.show("reload", reload(target, environ, options.rounds))
    common.write(options.out or common.RESULTS / f"start_{options.device.partition(':')[0]}.json", results)


@contextmanager
def started(target: Sequence[str], environ: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A server's URL, and seconds from its command until it said that it is ready, and until its first answer."""
    with tempfile.TemporaryDirectory() as folder:
        log, port = Path(folder) / "log", servers.free_port()
        began = time.monotonic()
        process = servers.spawn(tuple(target), log, PORT=str(port), **environ)
        url = f"http://127.0.0.1:{port}"
        try:
            with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
                first, *others = [said(process, client, url, log, number) for number in range(REQUESTS)]
                figures = {
                    "first_answer_s": round(first[1] - began, 2),
                    "first_request_sent_s": round(first[0] - began, 2),
                    "requests_ms": [round(1000 * (end - start), 1) for start, end in others],
                }
                yield url, figures
        finally:
            process.terminate()
            process.wait(timeout=60)


def said(
    process: subprocess.Popen[bytes], client: httpx.Client, url: str, log: Path, number: int
) -> tuple[float, float]:
    """When the request was taken, and when its answer was there. Asks again while nobody listens."""
    text = sentence(number * len(PATTERNS) + PATTERN)
    while process.poll() is None:
        began = time.monotonic()
        with suppress(httpx.ConnectError):
            client.post(f"{url}/tts", json={"text": text}).raise_for_status()
            return began, time.monotonic()
        time.sleep(POLL)
    raise RuntimeError(f"the server has ended:\n{log.read_text(errors='replace')}")


def reload(target: Sequence[str], environ: dict[str, str], rounds: int) -> dict[str, Any]:
    """Seconds of a request that finds the model unloaded, and of the one after it."""
    unloaded, loaded = [], []
    environ = environ | {"KOKORO_IDLE_UNLOAD_S": str(IDLE)}
    with started(target, environ) as (url, _), httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        for number in range(rounds):
            while client.get(f"{url}/health/batching").json()["model"]["state"] != "unloaded":
                time.sleep(POLL)
            for found in (unloaded, loaded):
                began = time.monotonic()
                client.post(f"{url}/tts", json={"text": sentence(number * len(PATTERNS) + PATTERN)}).raise_for_status()
                found.append(round(time.monotonic() - began, 3))
    return {"unloaded_s": unloaded, "loaded_s": loaded}


def summary(starts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and the medians over them. The second request is the first that finds a server that is ready."""
    return {
        "runs": list(starts),
        "first_answer_s": statistics.median(each["first_answer_s"] for each in starts),
        "second_request_ms": statistics.median(each["requests_ms"][0] for each in starts),
        "tenth_request_ms": statistics.median(each["requests_ms"][-1] for each in starts),
    }


def forget_files(*, everything: bool) -> None:
    """Take the files of the model and of Python's packages out of the page cache, or `everything`."""
    os.sync()
    if everything:
        DROP_CACHES.write_text("3\n")
        return
    folders = [*map(Path, site.getsitepackages()), Settings.load(dotenv=None).cache_dir]
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
