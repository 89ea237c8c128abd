"""The table of a run, in Markdown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.chaos.state import TOLERANCES
from tests.chaos.verdicts import VERDICTS

HEAD = """\
# Chaos

Every endpoint and protocol, jobs and bulk runs under load, while a process is killed, stopped or starved every few
seconds. *Right*: the whole sound, of the same length as undisturbed. *Refused*: 429 or 503 with `Retry-After`, or a
socket's error. *Broken off*: the connection ended where its client notices. *Left*: by its client. *Bad*: all else.

To repeat: `make test-chaos`.
"""
SHOWN = 20


def report(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    where = f"Commit {found['commit']}; {found['machine']}; Python {found['python']}; {versions}. "
    run = f"Model {found['model']}, {found['processes']} process(es), {found['clients']} clients, "
    run += f"{found['seconds']:g} s, seed {found['seed']}; slowest request {found['slowest']:.1f} s."
    parts = [HEAD, where + run, "", _verdicts(found["verdicts"]), _faults(found["log"]), _state(found)]
    wrong = found["violations"]
    listed = "\n".join(f"- {each}" for each in wrong[:SHOWN]) or "Everything as promised."
    more = f"\n- and {len(wrong) - SHOWN} more, in the JSON file" if len(wrong) > SHOWN else ""
    return "\n".join([*parts, "## Not as promised", "", listed + more, ""])


def _verdicts(counts: dict[str, dict[str, int]]) -> str:
    lines = [f"| request | {' | '.join(VERDICTS)} |", "|---|" + "--:|" * len(VERDICTS)]
    everything = Counter[str]()
    for name, of_kind in sorted(counts.items()):
        lines.append(_row(name, [of_kind.get(verdict, 0) for verdict in VERDICTS]))
        everything.update(of_kind)
    lines.append(_row("**all**", [everything[verdict] for verdict in VERDICTS]))
    return "\n".join([*lines, ""])


def _faults(log: list[dict[str, Any]]) -> str:
    done = Counter(entry["fault"] for entry in log if "skipped" not in entry)
    skipped = Counter(entry["fault"] for entry in log if "skipped" in entry)
    lines = ["| fault | times | no such process then |", "|---|--:|--:|"]
    lines += [_row(name, [done[name], skipped[name]]) for name in sorted(done | skipped)]
    return "\n".join([*lines, ""])


def _state(found: dict[str, Any]) -> str:
    lines = ["| process or folder | holds | before | after |", "|---|---|--:|--:|"]
    for kind, values in found["before"].items():
        lines += [
            f"| {kind} | {name} | {value:g} | {found['after'][kind].get(name, 0):g} |" for name, value in values.items()
        ]
    return "\n".join([f"Each process may hold more afterwards by: {TOLERANCES}.", "", *lines, ""])


def _row(name: str, counts: list[int]) -> str:
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |"
