"""The share of the machine that this process may use."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")
CPUINFO = Path("/proc/cpuinfo")
PROCESSOR_FIELDS = ("model name", "CPU implementer", "CPU part", "CPU variant")  # the last three on ARM
UNKNOWN_MEMORY = 4 << 30  # bytes, where the system does not say how much it has


def available_cores(process: Path = PROCESS) -> float:
    """Cores by the process's affinity and the quotas of its control groups, which may be half a core."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with contextlib.suppress(OSError, ValueError):  # no such files, or in another form: not Linux, or a sandbox
        return min((cores, *_quotas(process)))
    return cores


def thread_count(process: Path = PROCESS) -> int:
    """How many threads can run at once."""
    return max(1, int(available_cores(process)))


def processor(cpuinfo: Path = CPUINFO) -> str:
    """The model of the first processor, as the system names it."""
    with contextlib.suppress(OSError):
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if found := [fields[name] for name in PROCESSOR_FIELDS if name in fields]:
            return " ".join(found)
    return platform.processor() or platform.machine()


def available_memory(process: Path = PROCESS) -> int:
    """Bytes of memory by the machine and the limits of the process's control groups."""
    memory = UNKNOWN_MEMORY
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not on Windows
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        limits = [_limit(folder, version) for folder, version in _groups(process, "memory")]
        return min([memory, *(limit for limit in limits if limit)])
    return memory


def _limit(folder: Path, version: int) -> int | None:
    """The bytes that a group may use; None without a limit, which is written as `max` or as a huge number."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")).read_text())
    return None


def _quotas(process: Path) -> Iterator[float]:
    """The quotas of the process's control group and of all groups around it."""
    for folder, version in _groups(process, "cpu"):
        if quota := _quota(folder, version):
            yield quota


def _groups(process: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """The folders of the process's control group and of all groups around it, each with its version."""
    groups: dict[str, PurePosixPath] = {}
    for line in (process / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), PurePosixPath(path))  # version 2 names no controllers
    for version, root, mounted in _mounts(process, controller):
        group = groups.get("" if version == 2 else controller)
        if group is None:
            continue
        # A container may see the host's path of its group, while only the group itself is mounted.
        folder = mounted / (group.relative_to(root) if group.is_relative_to(root) else ".")
        for each in (folder, *folder.parents):
            if each.is_relative_to(mounted):
                yield each, version


def _mounts(process: Path, controller: str) -> Iterator[tuple[int, str, Path]]:
    """The mounts of control groups that can have the controller: version, group and folder of each."""
    for line in (process / "mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        filesystem, _, options = kind.split(" ", 2)
        root, folder = mount.split(" ")[3:5]
        if filesystem == "cgroup2":
            yield 2, root, Path(folder)
        elif filesystem == "cgroup" and controller in options.split(","):
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
