"""What a process and its children take, as Linux tells it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SERVES = b"kokoro_server.server.processes.child"


@dataclass(frozen=True)
class Usage:
    memory_mb: float  # of the process itself; where there are fronts, of them, the engine process and the supervisor
    threads: int
    descriptors: int
    processes: int  # children, grandchildren and so on


def usage(pid: int) -> Usage:
    below = descendants(pid)
    homes = [Path("/proc", str(each)) for each in (pid, *filter(_serves, below))]
    memory = sum(_number(home / "smaps_rollup", "Pss") for home in homes) / 1000
    threads = sum(_number(home / "status", "Threads") for home in homes)
    return Usage(round(memory, 1), threads, sum(len(list((home / "fd").iterdir())) for home in homes), len(below))


def _serves(pid: int) -> bool:
    try:
        return SERVES in Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return False


def _number(file: Path, name: str) -> int:
    fields = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    return int(fields[name].split()[0])


def descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            parents.setdefault(parent, []).append(int(entry.name))
    found, open_ = [], [pid]
    while open_:
        children = parents.get(open_.pop(), [])
        found += children
        open_ += children
    return found


def _parent(process: Path) -> int | None:
    try:
        state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:  # it has ended meanwhile
        return None
    return None if state == "Z" else int(parent)
