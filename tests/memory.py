"""What memory this process holds."""

from __future__ import annotations

from pathlib import Path


def anonymous_memory() -> int:
    """In bytes, without files. Linux alone tells it."""
    [line] = (line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if "Anonymous:" in line)
    return int(line.split()[1]) * 1024
