"""What a process and its children take, as Linux tells it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    memory_mb: float  # resident, of the process itself
    threads: int
    descriptors: int
    processes: int  # children, grandchildren and so on


def usage(pid: int) -> Usage:
    home = Path("/proc", str(pid))
    fields = dict(line.split(":", 1) for line in (home / "status").read_text().splitlines() if ":" in line)
    descriptors = len(list((home / "fd").iterdir()))
    memory = int(fields["VmRSS"].split()[0]) / 1000
    return Usage(round(memory, 1), int(fields["Threads"]), descriptors, len(descendants(pid)))


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
