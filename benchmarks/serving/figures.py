"""What a run of `serve_bench` comes to: figures of its answers, and comparisons."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.serving.load import Answer

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
        "first_audible_ms": percentiles(
            [1000 * (answer.audible - answer.asked) for answer in good if answer.audible is not None]
        ),
        "total_ms": percentiles([1000 * (answer.ended - answer.asked) for answer in good]),
        "server_ms": steps(good),
    }


def steps(answers: Sequence[Answer]) -> dict[str, Any]:
    """Where the time until the answer began went, by the server; `rest` is what it does besides."""
    told = [answer.server_ms for answer in answers if "total" in answer.server_ms]
    rest = [2 * each["total"] + each.get("audible", 0.0) - sum(each.values()) for each in told]
    names = dict.fromkeys(name for each in told for name in each)
    return {name: percentiles([each[name] for each in told if name in each]) for name in names} | (
        {"rest": percentiles(rest)} if told else {}
    )


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """By nearest rank; nothing for no values."""
    ordered = sorted(values)
    return {
        f"p{share}": round(ordered[math.ceil(share / 100 * len(ordered)) - 1], 2) if ordered else None
        for share in (50, 95, 99)
    }


def ratios(results: dict[str, Any]) -> dict[str, float]:
    """Our throughput by what the same card does without us; and by ours, the wait for a stream's sound there.

    Ours in the form that was measured first.
    """
    plain = results["plain_model"]
    forms = results["forms"]
    runs = {
        (run["server"], run["endpoint"], run["clients"]): run
        for run in results["runs"]
        if run["mode"] == "closed" and (run["server"] != OURS or run["processes"] == forms[0])
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
