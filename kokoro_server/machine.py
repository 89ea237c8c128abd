"""What this process may use of its machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CGROUP_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # a container's quota: CPU microseconds, period


def available_cores(cpu_max: Path = CGROUP_CPU_MAX) -> float:
    """Cores by the process's affinity and its container's quota, which may be half a core."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with contextlib.suppress(OSError, ValueError):  # no such file, or no limit: "max 100000"
        allowed, period = cpu_max.read_text(encoding="ascii").split()
        cores = min(cores, int(allowed) / int(period))
    return cores
