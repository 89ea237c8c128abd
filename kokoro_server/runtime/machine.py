"""The share of the machine that this process may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")


def available_cores(process: Path = PROCESS) -> float:
    """Cores by the process's affinity and the quotas of its control groups, which may be half a core."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with contextlib.suppress(OSError, ValueError):  # no such files, or in another form: not Linux, or a sandbox
        return min((cores, *_quotas(process)))
    return cores


def thread_count(process: Path = PROCESS) -> int:
    """How many threads can run at once."""
    return max(1, int(available_cores(process)))


def _quotas(process: Path) -> Iterator[float]:
    """The quotas of the process's control group and of all groups around it."""
    groups: dict[str, PurePosixPath] = {}
    for line in (process / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), PurePosixPath(path))  # version 2 names no controllers
    for version, root, mounted in _mounts(process):
        group = groups.get("" if version == 2 else "cpu")
        if group is None:
            continue
        # A container may see the host's path of its group, while only the group itself is mounted.
        folder = mounted / (group.relative_to(root) if group.is_relative_to(root) else ".")
        for each in (folder, *folder.parents):
            if each.is_relative_to(mounted) and (quota := _quota(each, version)):
                yield quota


def _mounts(process: Path) -> Iterator[tuple[int, str, Path]]:
    """The mounts of control groups that can limit the CPU: version, group and folder of each."""
    for line in (process / "mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        filesystem, _, options = kind.split(" ", 2)
        root, folder = mount.split(" ")[3:5]
        if filesystem == "cgroup2":
            yield 2, root, Path(folder)
        elif filesystem == "cgroup" and "cpu" in options.split(","):
            yield 1, root, Path(folder)


def _quota(folder: Path, version: int) -> float | None:
    """The cores that a group may use; None without a limit, which is written as `max` or as -1."""
    with contextlib.suppress(OSError, ValueError):
        if version == 2:
            allowed, period = map(int, (folder / "cpu.max").read_text().split())
        else:
            allowed, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return allowed / period if allowed > 0 else None
    return None
