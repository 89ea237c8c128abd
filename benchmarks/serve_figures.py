"""What a run of `serve_bench` comes to: figures of its answers, what the server used meanwhile, and comparisons."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.serve_load import Answer
from tests.servers import Server

OURS, ONE_AT_A_TIME = "kokoro-server", "one-at-a-time"


def figures(answers: Sequence[Answer], seconds: float) -> dict[str, Any]:
    good = [answer for answer in answers if not answer.fault]
    faults = [answer.fault for answer in answers if answer.fault]
    return {
        "requests": len(good),
        "errors": len(faults),
        **({"first_error": faults[0]} if faults else {}),
        "audio_per_second": round(sum(answer.seconds for answer in good) / seconds, 1),
        "requests_per_second": round(len(good) / seconds, 1),
        "clip_seconds": round(statistics.mean(answer.seconds for answer in good), 2) if good else None,
        "first_audio_ms": percentiles([1000 * (answer.first - answer.asked) for answer in good]),
        "total_ms": percentiles([1000 * (answer.ended - answer.asked) for answer in good]),
    }


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """By nearest rank; nothing for no values."""
    ordered = sorted(values)
    return {
        f"p{share}": round(ordered[math.ceil(share / 100 * len(ordered)) - 1], 2) if ordered else None
        for share in (50, 95, 99)
    }


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server has used and done so far."""

    when: float
    loop: float  # CPU seconds of the thread that the event loop runs on
    process: float
    batches: float
    rows: float
    device: float  # seconds that batches took, retries included

    @classmethod
    def of(cls, server: Server) -> Usage:
        pid = server.process.pid
        counted = _metrics(server.url)
        return cls(
            time.monotonic(),
            _cpu(Path(f"/proc/{pid}/task/{pid}/stat")),
            _cpu(Path(f"/proc/{pid}/stat")),
            counted.get("tts_batch_rows_count", math.nan),
            counted.get("tts_batch_rows_sum", math.nan),
            counted.get("tts_inference_time_seconds_sum", math.nan),
        )

    def since(self, before: Usage) -> dict[str, float | None]:
        seconds = self.when - before.when
        batches, known = self.batches - before.batches, not math.isnan(self.batches)
        return {
            "batch_rows_mean": (round((self.rows - before.rows) / batches, 2) if batches else None) if known else 1.0,
            "loop_cpu_share": round((self.loop - before.loop) / seconds, 3),
            "process_cpu": round((self.process - before.process) / seconds, 3),
            "device_share": round((self.device - before.device) / seconds, 3) if known else None,
        }


def _cpu(stat: Path) -> float:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / 100  # user and system, in ticks of 10 ms


def _metrics(url: str) -> dict[str, float]:
    answer = httpx.get(f"{url}/metrics", trust_env=False, timeout=60)
    if answer.status_code != 200:
        return {}
    lines = (line.split(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {words[0]: float(words[1]) for words in lines if len(words) == 2}


def ratios(results: dict[str, Any]) -> dict[str, float]:
    """Our throughput by what the same card does without us; and by ours, the wait for a stream's sound there."""
    plain = results["plain_model"]
    runs = {
        (run["server"], run["endpoint"], run["clients"]): run
        for run in results["runs"]
        if run["mode"] == "closed" and run["input"] == "text"
    }
    rates = [run["audio_per_second"] for (server, path, _), run in runs.items() if (server, path) == (OURS, "/tts")]
    found = {}
    if plain and rates:
        found["best_by_plain_model"] = round(max(rates) / plain["audio_per_second"], 1)
    for (server, endpoint, clients), run in runs.items():
        if plain and (server, endpoint) == (OURS, "/tts"):
            found[f"by_plain_model_at_{clients}"] = round(run["audio_per_second"] / plain["audio_per_second"], 1)
        theirs = runs.get((ONE_AT_A_TIME, endpoint, clients))
        if server != OURS or theirs is None:
            continue
        if endpoint == "/tts" and theirs["audio_per_second"]:
            quotient = run["audio_per_second"] / theirs["audio_per_second"]
            found[f"by_one_at_a_time_at_{clients}"] = round(quotient, 1)
        if endpoint == "/tts/stream" and theirs["requests"] and run["requests"]:
            quotient = theirs["first_audio_ms"]["p95"] / run["first_audio_ms"]["p95"]
            found[f"one_at_a_time_first_audio_p95_by_ours_at_{clients}"] = round(quotient, 1)
    return found
