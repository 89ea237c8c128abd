"""How soon a screen reader's user hears something: modules of Speech Dispatcher, driven as it drives them.

    python -m benchmarks.screen_reader_bench [--url http://127.0.0.1:8880] [--espeak PATH] [--rounds 9] [--out FILE]

A server must run at --url. Each round starts the modules and says each text twice. `first` is when the module sends
its first sound, `heard` when the first sample over -40 dBFS would be played, both in milliseconds after the text was
sent. `again` is the second time: the module of Kokoro Server keeps what it has said lately.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from tests.screen_reader import driver
from tests.screen_reader.driver import Driver

TEXTS = {
    "a": ("CHAR", "a"),
    "OK": ("SPEAK", "<speak>OK</speak>"),
    "Submit button": ("SPEAK", "<speak>Submit button</speak>"),
}
ESPEAK = Path("/usr/lib/speech-dispatcher-modules/sd_espeak-ng")
AUDIBLE = 10 ** (-40 / 20)

Times = dict[str, list[float]]


def said(spoken: Driver, kind: str, text: str) -> tuple[float, float]:
    """Milliseconds until the first sound was sent, and until it would be heard."""
    for command, values in (
        ("SET\n", "".join(f"{n}={v}\n" for n, v in driver.USUAL.items()) + ".\n"),
        (f"{kind}\n", ""),
    ):
        spoken.ask(command)
        if values:
            spoken.ask(values)
    spoken.sounds, spoken.rates, spoken.first = [], set(), 0.0
    sent = time.perf_counter()
    spoken.ask(f"{text}\n.\n")
    spoken.events()
    samples = np.frombuffer(spoken.samples, dtype="<i2") / 32_768
    silence = int(np.argmax(np.abs(samples) > AUDIBLE)) / spoken.rates.pop()
    first = (spoken.first - sent) * 1_000
    return first, first + silence * 1_000


def measured(command: tuple[str, ...], url: str, rounds: int) -> dict[str, Any]:
    times: dict[str, dict[str, Times]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    starts: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, driver.module(Path(folder), url, command=command) as spoken:
            started = time.perf_counter()
            spoken.start()
            starts.append((time.perf_counter() - started) * 1_000)
            for text, (kind, content) in TEXTS.items():
                for when in ("once", "again"):
                    first, heard = said(spoken, kind, content)
                    times[text][when]["first"].append(first)
                    times[text][when]["heard"].append(heard)
    return {"start_ms": summary(starts), "texts": {text: _summaries(found) for text, found in times.items()}}


def _summaries(found: dict[str, Times]) -> dict[str, dict[str, Any]]:
    return {when: {name: summary(values) for name, values in each.items()} for when, each in found.items()}


def summary(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 1), "min": round(min(values), 1), "max": round(max(values), 1)}


def program_version(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8880")
    parser.add_argument("--espeak", type=Path, default=ESPEAK, help="the module of Speech Dispatcher")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "screen_reader.json")
    options = parser.parse_args()
    modules = {"kokoro": driver.MODULE} | ({"espeak-ng": (str(options.espeak),)} if options.espeak.exists() else {})
    results: dict[str, Any] = {"benchmark": "screen_reader", "rounds": options.rounds}
    if "espeak-ng" in modules:
        results["programs"] = {
            "speech-dispatcher": program_version("speech-dispatcher", "--version"),
            "espeak-ng": program_version("espeak-ng", "--version"),
        }
    results["modules"] = {name: measured(command, options.url, options.rounds) for name, command in modules.items()}
    common.write(options.out, results)
    for name, found in results["modules"].items():
        print(name, "start", found["start_ms"]["median"], "ms")
        for text, each in found["texts"].items():
            print(f"  {text:14}", {when: each[when]["heard"]["median"] for when in each})


if __name__ == "__main__":
    main()
