"""Streams as a listener has them: when sound starts, and whether it ever stops for want of audio.

    python -m benchmarks.stream_bench [--url http://localhost:8880 | --real] [--short] [--out FILE]

Two questions. Does the time to the first audio, and to the first audible sound, grow with the text? It should not. And,
of texts heard to their end, how often and how long does a player that starts with the first byte run dry?

With --short there is another one: where does the time of a short text go? It is split as `Server-Timing` says; `rest`
is the time outside of these steps, with that of HTTP. Most texts come again and again, as a screen reader's do; of the
"new label" no two are the same.

Without a URL a server with a tiny random model is started, so that the server's own share is what is seen; with --real
one with the real model on this machine's CPU. Texts of different lengths take turns in every round.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import common
from kokoro_server.audio.audible import first_audible
from tests import servers

FIRST = "It was late, and the lights were on. "
SENTENCE = "The quick brown fox jumps over the lazy dog while seven wizards quietly watch from the distant hill. "
SENTENCES = (1, 10, 100, 900)

STORY = (
    "The old lighthouse had stood on the cliff for more than a hundred years. Nobody in the village remembered who had "
    "built it, or why its lamp had gone out one winter night and never been lit again. When Clara moved into the small "
    "house below it, she was told to keep away. Of course, she did not. On her third evening she climbed the path with "
    "a torch in her hand, counted the steps, and found the door open. Inside it smelled of salt and oil; somewhere "
    "above her, very slowly, something was turning. She waited until she could hear it clearly, and then she went up."
)
HEARD = {
    "a short sentence first": f"Hello there. {STORY}",
    "a story": STORY,
    "one long sentence": (
        "When in the course of a long and uneventful afternoon a traveller without luggage or any particular purpose "
        "walks along the narrow road that follows the river from the mill to the bridge and back again he will sooner "
        "or later meet somebody who wants to know where he is going and why he has not been there already."
    ),
}
SHORT = {
    "a letter": "a",
    "a word": "OK",
    "a label": "Submit button",
    "a sentence": "The quick brown fox jumps over the lazy dog today.",
    "a page": f"{STORY} {STORY}",
}
LABELS = [
    f"{verb} {noun}"
    for noun in ("button", "link", "menu", "tab", "field", "list", "folder", "message", "window", "dialog")
    for verb in ("Send", "Cancel", "Save", "Delete", "Open", "Close", "Print", "Search", "Reply", "Copy")
]
STEPS = ("text", "queue", "inference")
SAMPLE_RATE = 24_000
BYTES_PER_SECOND = SAMPLE_RATE * 2

Question = Callable[[httpx.Client, str, int], list[dict[str, Any]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--real", action="store_true", help="start one with the real model, on the CPU")
    parser.add_argument("--short", action="store_true", help="where the time of short texts goes, and nothing else")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name = "stream_cpu.json" if options.real else "stream_bench.json"
    asked = (short,) if options.short else (lengths, heard)
    if options.short:
        name = name.replace("stream", "short")
    if options.url:
        results = measure(options.url, options.rounds, asked)
    else:
        kind = servers.REAL if options.real else servers.TINY
        with (
            tempfile.TemporaryDirectory() as folder,
            servers.running(kind, Path(folder) / "log", KOKORO_DEVICE="cpu") as server,
        ):
            results = measure(server.url, options.rounds, asked)
    model = options.url or ("real" if options.real else "tiny")
    common.write(options.out or common.RESULTS / name, {"benchmark": "stream", "model": model, **results})
    for question in asked:
        for line in results[question.__name__]:
            print(line)


def measure(url: str, rounds: int, asked: Sequence[Question]) -> dict[str, Any]:
    with httpx.Client(timeout=300) as client:
        first_audio(client, url, FIRST)  # the first of all is slower
        health = client.get(f"{url}/health").json()
        return {
            "server": {name: health[name] for name in ("backend", "device", "compute")},
            "streaming": client.get(f"{url}/health/streaming").json().get("pace"),
            **{question.__name__: question(client, url, rounds) for question in asked},
        }


def short(client: httpx.Client, url: str, rounds: int) -> list[dict[str, Any]]:
    times: dict[str, list[FirstSound]] = {name: [] for name in (*SHORT, "a new label")}
    for number in range(rounds):
        for name, text in {**SHORT, "a new label": LABELS[number % len(LABELS)]}.items():
            wait_until_idle(client, url)
            times[name].append(first_audio(client, url, text))
    return [
        {
            "text": name,
            "first_audio_ms": _spread([each.start for each in found]),
            "first_audible_ms": _spread([each.audible for each in found]),
            "steps_ms": {step: _median([each.steps[step] for each in found]) for step in (*STEPS, "rest")},
        }
        for name, found in times.items()
    ]


def lengths(client: httpx.Client, url: str, rounds: int) -> list[dict[str, Any]]:
    texts = {count: FIRST + SENTENCE * count for count in SENTENCES}
    times: dict[int, list[FirstSound]] = {count: [] for count in texts}
    for _ in range(rounds):
        for count, text in texts.items():
            wait_until_idle(client, url)  # what is left of the stream before, which was hung up on
            times[count].append(first_audio(client, url, text))
    return [
        {
            "sentences": count,
            "characters": len(texts[count]),
            "first_audio_ms": _spread([each.start for each in found]),
            "first_audible_ms": _spread([each.audible for each in found]),
        }
        for count, found in times.items()
    ]


@dataclass(frozen=True)
class FirstSound:
    """Seconds from the request."""

    start: float  # to the first audio
    audible: float  # to the first sample over -45 dB of the peak, if it is played from the first audio on
    steps: Mapping[str, float]  # the parts of `start`


@dataclass(frozen=True)
class Playback:
    start: float  # seconds until the first audio
    audible: float  # seconds until the first audible sound
    stalls: tuple[float, ...]  # how long each lasted
    audio: float  # seconds
    total: float  # until the last byte


def heard(client: httpx.Client, url: str, rounds: int) -> list[dict[str, Any]]:
    runs: dict[str, list[Playback]] = {name: [] for name in HEARD}
    for _ in range(max(1, rounds // 5)):
        for name, text in HEARD.items():
            wait_until_idle(client, url)
            runs[name].append(play(client, url, text))
    return [
        {
            "text": name,
            "characters": len(HEARD[name]),
            "audio_s": round(played[0].audio, 2),
            "first_audio_ms": _spread([run.start for run in played]),
            "first_audible_ms": _spread([run.audible for run in played]),
            "stalls": [len(run.stalls) for run in played],
            "longest_stall_ms": round(1000 * max((max(run.stalls, default=0.0) for run in played), default=0.0), 1),
            "real_time_factor": round(statistics.median(run.total / run.audio for run in played), 3),
        }
        for name, played in runs.items()
    ]


def play(client: httpx.Client, url: str, text: str) -> Playback:
    """Take a stream to its end, and look when a player would have run out of it."""
    began = time.perf_counter()
    with client.stream("POST", f"{url}/tts/stream", json={"text": text, "format": "pcm"}) as response:
        response.raise_for_status()
        arrivals = [(time.perf_counter() - began, data) for data in response.iter_raw()]
    return playback(arrivals)


def playback(arrivals: Sequence[tuple[float, bytes]]) -> Playback:
    """`arrivals` are times and samples."""
    start = arrivals[0][0]
    runs_dry, stalls, received = start, [], 0
    for when, data in arrivals:
        if when > runs_dry:
            stalls.append(when - runs_dry)
            runs_dry = when
        runs_dry += len(data) / BYTES_PER_SECOND
        received += len(data)
    audible = start + silence(b"".join(data for _, data in arrivals))
    return Playback(start, audible, tuple(stalls), received / BYTES_PER_SECOND, arrivals[-1][0])


def silence(pcm: bytes) -> float:
    """Seconds before the first sample over -45 dB of the peak."""
    samples = np.frombuffer(pcm, "<i2", len(pcm) // 2)
    place = first_audible(samples)
    return (len(samples) if place is None else place) / SAMPLE_RATE


def steps(server_timing: str, start: float) -> dict[str, float]:
    """The seconds of each step that the header names, and the `rest` of those until the `start`."""
    entries = (entry.strip().partition(";dur=") for entry in server_timing.split(","))
    named = {name: float(ms) / 1000 for name, _, ms in entries if name in STEPS}
    return {**dict.fromkeys(STEPS, 0.0), **named, "rest": start - sum(named.values())}


def _median(seconds: Sequence[float]) -> float:
    return round(1000 * statistics.median(seconds), 1)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "median": _median(seconds),
        "min": round(1000 * min(seconds), 1),
        "max": round(1000 * max(seconds), 1),
    }


def wait_until_idle(client: httpx.Client, url: str) -> None:
    while True:
        queue = client.get(f"{url}/health/batching").json()["queue_status"]
        if not queue["current_size"] and not queue["running_rows"]:
            return
        time.sleep(0.02)


def first_audio(client: httpx.Client, url: str, text: str) -> FirstSound:
    """Reads the first second of samples, or all if there are fewer; then the client hangs up."""
    started = time.perf_counter()
    with client.stream("POST", f"{url}/tts/stream", json={"text": text, "format": "pcm"}) as response:
        response.raise_for_status()
        chunks = response.iter_raw()
        pcm = next(chunks)
        start = time.perf_counter() - started
        while len(pcm) < BYTES_PER_SECOND and (more := next(chunks, b"")):
            pcm += more
    return FirstSound(start, start + silence(pcm), steps(response.headers.get("server-timing", ""), start))


if __name__ == "__main__":
    main()
