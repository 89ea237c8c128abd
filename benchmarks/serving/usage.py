"""What a server uses while it is measured, seen from outside: CPU of each of its processes, its devices, the GPU."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

TICK = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
SMI = ("nvidia-smi", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str
    threads: dict[int, float]  # CPU seconds by thread; that of the process's own id runs its event loop
    cpu: float  # seconds, of threads that have ended too
    memory_mb: float


def all_processes() -> dict[int, Process]:
    return {process.pid: process for path in Path("/proc").glob("[0-9]*") if (process := _read(path))}


def family_of(root: int, found: dict[int, Process]) -> dict[int, Process]:
    """The process and all its descendants."""
    mine = {root}
    while new := {pid for pid, process in found.items() if process.parent in mine} - mine:
        mine |= new
    return {pid: found[pid] for pid in sorted(mine & found.keys())}


def _read(path: Path) -> Process | None:
    try:
        parent, cpu = _stat(path / "stat")
        threads = {int(task.name): _stat(task / "stat")[1] for task in (path / "task").iterdir()}
        command = " ".join((path / "cmdline").read_text(errors="replace").split("\0")).strip()
        memory = int((path / "statm").read_text().split()[1]) * PAGE_MB
    except (OSError, ValueError, IndexError):
        return None  # it has just ended
    return Process(int(path.name), parent, command, threads, cpu, memory)


def _stat(path: Path) -> tuple[int, float]:
    fields = path.read_text(errors="replace").rpartition(")")[2].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK


def role(process: Process, family: dict[int, Process]) -> str:
    """What it is for, by its command: the module that it runs, or that of its parent."""
    words = process.command.split(" ")
    parent = family.get(process.parent)
    if "resource_tracker" in process.command:
        return "resource tracker"
    if parent and ("multiprocessing" in process.command or process.command == parent.command):
        return f"{role(parent, family)} child"
    if "-m" in words[:-1]:
        module, *arguments = words[words.index("-m") + 1 :]
        named = [module.removeprefix("kokoro_server").strip("."), *itertools.takewhile(_is_no_option, arguments)]
        return " ".join(named[:2]).strip()
    return words[0].rpartition("/")[2]


def _is_no_option(word: str) -> bool:
    return not word.startswith("-")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server has used and done so far, and what all else that this process has started has used."""

    when: float
    family: dict[int, Process]
    others_cpu: float  # seconds: of the clients
    health: dict[str, Any]
    health_when: float
    g2p: tuple[float, float]  # seconds of the calls to G2P so far, and how many there were

    @classmethod
    def of(cls, pid: int, url: str) -> Usage:
        when, found = time.monotonic(), all_processes()
        family, ours = family_of(pid, found), family_of(os.getpid(), found)
        others = sum(process.cpu for process in ours.values() if process.pid not in family)
        asked = time.monotonic()
        answer = httpx.get(f"{url}/health/batching", trust_env=False, timeout=60)
        health = answer.json() if answer.status_code == 200 else {}
        return cls(when, family, others, health, (asked + time.monotonic()) / 2, _g2p_calls(url))

    def since(self, before: Usage, requests: int) -> dict[str, Any]:
        seconds = self.when - before.when
        listed = [
            _shares(process, before.family.get(pid), seconds) | {"role": role(process, self.family)}
            for pid, process in self.family.items()
        ]
        total = sum(entry["cpu"] for entry in listed)
        calls = self.g2p[1] - before.g2p[1]
        return {
            **self._devices(before),
            "g2p_ms_mean": round(1000 * (self.g2p[0] - before.g2p[0]) / calls, 1) if calls else None,
            "cpu": round(total, 3),
            "cpu_ms_per_request": round(1000 * total * seconds / requests, 3) if requests else None,
            "clients_cpu": round((self.others_cpu - before.others_cpu) / seconds, 3),
            "processes_cpu": listed,
        }

    def _devices(self, before: Usage) -> dict[str, Any]:
        if not self.health or not before.health:
            return {"device_busy": None, "batch_rows_mean": None}
        now, then = (usage.health["devices"] for usage in (self, before))
        if "busy_seconds" not in now[0]:  # an older server, whose account is not worth much
            return {"device_busy": None, "batch_rows_mean": None}
        busy = [new["busy_seconds"] - old["busy_seconds"] for new, old in zip(now, then, strict=True)]
        done = self.health["performance"], before.health["performance"]
        rows, batches = (done[0][name] - done[1][name] for name in ("total_requests", "total_batches"))
        return {
            "device_busy": round(statistics.mean(busy) / (self.health_when - before.health_when), 3),
            "batch_rows_mean": round(rows / batches, 2) if batches else None,
            "gap_ms": [device["idle_gap_ms"] for device in now],
            "resources": [device["resources"] for device in now if "resources" in device],
        }


def _g2p_calls(url: str) -> tuple[float, float]:
    answer = httpx.get(f"{url}/metrics", trust_env=False, timeout=60)
    found = dict(line.split(" ") for line in answer.text.splitlines() if line.startswith("tts_g2p_time_seconds_"))
    return float(found.get("tts_g2p_time_seconds_sum", 0)), float(found.get("tts_g2p_time_seconds_count", 0))


def _shares(process: Process, before: Process | None, seconds: float) -> dict[str, Any]:
    """Of one core."""
    old_threads, old_cpu = (before.threads, before.cpu) if before else ({}, 0.0)
    threads = {
        thread: round((cpu - old_threads.get(thread, 0.0)) / seconds, 3) for thread, cpu in process.threads.items()
    }
    return {
        "cpu": round((process.cpu - old_cpu) / seconds, 3),
        "main_thread": threads.get(process.pid, 0.0),
        "busiest_thread": max(threads.values()),
        "memory_mb": round(process.memory_mb),
    }


@contextmanager
def nvidia_smi() -> Iterator[dict[str, float]]:
    """Filled at the end with the driver's own account of the first GPU; stays empty where there is none."""
    found: dict[str, float] = {}
    command = [*SMI, "--query-gpu=utilization.gpu,memory.used,power.draw", "--id=0", "-lms", "200"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        yield found
        return
    try:
        yield found
    finally:
        process.terminate()
        lines = [line.split(",") for line in process.communicate()[0].splitlines()]
        rows = [[float(number) for number in line] for line in lines if len(line) == 3 and "[" not in "".join(line)]
        if rows:
            found["smi_utilisation"] = round(statistics.mean(busy for busy, _, _ in rows) / 100, 3)
            found["smi_memory_mb"] = max(memory for _, memory, _ in rows)
            found["smi_watts"] = round(statistics.mean(watts for _, _, watts in rows), 1)


def gpu_name() -> str | None:
    try:
        told = subprocess.run([*SMI, "--query-gpu=name", "--id=0"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.strip() or None
