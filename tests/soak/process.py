"""What the processes of a server hold, as Linux reports it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers import family

MODULES = {  # what a process has on its command line, by what it does
    "engine": (b"kokoro_server.server.processes.child", b"engine"),
    "api": (b"kokoro_server.server.processes.child", b"api"),
    "g2p": (b"kokoro_server.g2p.service",),
    "aac": (b"kokoro_server.audio.aac",),
    "reader": (b"kokoro_server.longform.jobs.reading",),
}
SHORT_LIVED = ("aac", "reader")
GPU_MEMORY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Usage:
    memory_mb: float  # anonymous
    threads: int
    descriptors: int


def processes(server: int) -> dict[str, list[int]]:
    """By what they do: `server` is the supervisor, or the one process; G2P workers are forks of the service."""
    lines = {pid: _command(pid) for pid in family(server)}
    found = {name: [pid for pid in lines if all(word in lines[pid] for word in MODULES[name])] for name in MODULES}
    services = found["g2p"]
    found["g2p worker"] = [pid for pid in services if _parent(pid) in services]
    found["g2p"] = [pid for pid in services if pid not in found["g2p worker"]]
    return {"server": [server], **found}


def usage(pid: int) -> Usage | None:
    """None if the process has ended."""
    home = Path("/proc", str(pid))
    with contextlib.suppress(OSError, KeyError):
        anonymous = _number(home / "smaps_rollup", "Anonymous") / 1000
        return Usage(round(anonymous, 1), _number(home / "status", "Threads"), len(list((home / "fd").iterdir())))
    return None


def memory(server: int) -> dict[str, float]:
    """Anonymous memory in MB by what processes do, but for those that live shortly; and that of the GPU, if any."""
    found = {
        name: round(sum(each.memory_mb for pid in pids if (each := usage(pid))), 1)
        for name, pids in processes(server).items()
        if pids and name not in SHORT_LIVED
    }
    if shutil.which(GPU_MEMORY[0]):
        said = subprocess.run(GPU_MEMORY, capture_output=True, text=True, check=False).stdout
        found["gpu"] = sum(map(float, said.split()))
    return found


def _command(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _number(file: Path, name: str) -> int:
    fields = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    return int(fields[name].split()[0])
