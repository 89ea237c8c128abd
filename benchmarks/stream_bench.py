"""Time to the first audio of a stream against the length of its text: it should not grow.

    python -m benchmarks.stream_bench [--url http://localhost:8880] [--out FILE]

Without a URL a server with a tiny random model is started, so that the server's own share is what is seen. Texts of
different lengths take turns in every round.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from tests import servers

FIRST = "It was late, and the lights were on. "
SENTENCE = "The quick brown fox jumps over the lazy dog while seven wizards quietly watch from the distant hill. "
SENTENCES = (1, 10, 100, 900)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "stream_bench.json")
    options = parser.parse_args()
    if options.url:
        lengths = measure(options.url, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as folder, servers.running(servers.TINY, Path(folder) / "log") as server:
            lengths = measure(server.url, options.rounds)
    common.write(options.out, {"benchmark": "stream", "model": options.url or "tiny", "lengths": lengths})
    for line in lengths:
        print(line)


def measure(url: str, rounds: int) -> list[dict[str, Any]]:
    texts = {count: FIRST + SENTENCE * count for count in SENTENCES}
    times: dict[int, list[float]] = {count: [] for count in texts}
    with httpx.Client(timeout=300) as client:
        first_audio(client, url, FIRST)  # the first of all is slower
        for _ in range(rounds):
            for count, text in texts.items():
                wait_until_idle(client, url)  # what is left of the stream before, which was hung up on
                times[count].append(first_audio(client, url, text))
    return [
        {
            "sentences": count,
            "characters": len(texts[count]),
            "first_audio_ms": {
                "median": round(1000 * statistics.median(values), 1),
                "min": round(1000 * min(values), 1),
                "max": round(1000 * max(values), 1),
            },
        }
        for count, values in times.items()
    ]


def wait_until_idle(client: httpx.Client, url: str) -> None:
    while True:
        queue = client.get(f"{url}/health/batching").json()["queue_status"]
        if not queue["current_size"] and not queue["running_rows"]:
            return
        time.sleep(0.02)


def first_audio(client: httpx.Client, url: str, text: str) -> float:
    """Seconds until the first byte of samples; then the client hangs up."""
    started = time.perf_counter()
    with client.stream("POST", f"{url}/tts/stream", json={"text": text, "format": "pcm"}) as response:
        response.raise_for_status()
        next(response.iter_raw())
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
