"""What a server holds, by the kind of its processes, and whether that is more than before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.soak.process import processes, usage

Holding = dict[str, dict[str, float]]  # numbers by their names, by the kind of process

# How much more each process may hold than before. Pools start their threads as they are needed, and keep them.
MORE: dict[str, Callable[[float], float]] = {
    "processes": lambda before: before,
    "memory_mb": lambda before: 1.25 * before + 40.0,
    "threads": lambda before: before + 24,
    "descriptors": lambda before: before + 10,
    "files": lambda before: before,
}
TOLERANCES = "processes and files: none more; anonymous memory: a quarter and 40 MB; threads: 24; descriptors: 10"
SETTLES = 120.0  # seconds


def holding(server: int, folders: dict[str, Path]) -> Holding:
    """For each kind the number of processes, and the most that one of them holds; files in each folder."""
    found: Holding = {}
    for kind, pids in processes(server).items():
        each = [asdict(used) for pid in pids if (used := usage(pid))]
        most = {name: max(used[name] for used in each) for name in each[0]} if each else {}
        found[kind] = {"processes": len(each), **most}
    return found | {name: {"files": _count(folder)} for name, folder in folders.items()}


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*")) if folder.exists() else 0


def grown(before: Holding, after: Holding) -> list[str]:
    return [
        f"{kind}: {name} {before[kind].get(name, 0):g} → {value:g}"
        for kind, values in after.items()
        for name, value in values.items()
        if name in before[kind] and value > MORE[name](before[kind][name])
    ]


def settled(before: Holding, server: int, folders: dict[str, Path]) -> Holding:
    """What the server holds when it has come down to what it held before, or after some time."""
    deadline = time.monotonic() + SETTLES
    while grown(before, found := holding(server, folders)) and time.monotonic() < deadline:
        time.sleep(1.0)
    return found
