"""Faults by a schedule: processes of a server are killed, stopped and starved while others use it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import alive
from tests.soak.process import processes

GAP = (3.0, 10.0)  # seconds from one fault to the next
STOP = (1.0, 8.0)  # seconds that a process is stopped
STARVED = (2.0, 8.0)  # seconds without descriptors, memory or disk
HANG = 150.0  # seconds in which a stopped process must be replaced: one that is starting has two minutes
APPEARS = 8.0  # seconds to wait for a process
SPARE_DESCRIPTORS = 3
SPARE_MEMORY = 16 << 20  # bytes
TRIES = 100  # to make the disk as small as what is used of it
DISK = 1400 << 20  # bytes of the small disk: jobs leave 1 GiB free

KILLED = ("engine", "api", "spare", "g2p", "g2p worker", "aac", "reader")
STARVABLE = ("engine", "api", "g2p")
EVERY = (
    *(("kill", target) for target in KILLED),
    *(("stop", target) for target in (*KILLED, "server")),
    *(("descriptors", target) for target in (*STARVABLE, "server")),
    *(("memory", target) for target in STARVABLE),
    ("disk", "jobs"),
)
ONCE = tuple(("hang", target) for target in STARVABLE)  # each takes longer than most of the others together


@dataclass(frozen=True)
class Fault:
    at: float  # seconds from the start
    what: str
    target: str
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.what} {self.target}"


def schedule(seed: int, seconds: float, processes: int, gap: tuple[float, float] = GAP) -> list[Fault]:
    """Rounds of all faults, each round in another order. The same seed gives the same schedule.

    A server of one process has no engine process and no API worker; it is stopped itself, but never killed.
    """
    chance = random.Random(seed)
    missing = ("engine", "api", "spare") if processes == 1 else ("server",)
    found, at, round_ = list[Fault](), 0.0, list[tuple[str, str]]()
    has_hung = seconds < HANG
    while True:
        if not round_:
            round_ = [each for each in (*EVERY, *(() if has_hung else ONCE)) if each[1] not in missing]
            has_hung = True
            chance.shuffle(round_)
        at += chance.uniform(*gap)
        what, target = round_.pop()
        length = {"kill": 0.0, "hang": HANG, "stop": chance.uniform(*STOP)}.get(what, chance.uniform(*STARVED))
        if at + (0.0 if what == "hang" else length) > seconds:
            return found
        found.append(Fault(round(at, 2), what, target, round(length, 2)))


@dataclass
class Processes:
    """The processes of a server, by what they do."""

    server: int
    workers: int  # API workers; a process more is their spare
    busy: set[int] = field(default_factory=set)  # with a fault

    def of(self, target: str) -> list[int]:
        found = processes(self.server)
        workers = sorted(found["api"])
        return {**found, "api": workers[: self.workers], "spare": workers[self.workers :]}[target]

    async def one(self, target: str, chance: random.Random) -> int | None:
        """One that has no fault yet. It is waited for: some live shortly, others are being restarted."""
        deadline = time.monotonic() + APPEARS
        while True:
            if found := [pid for pid in self.of(target) if pid not in self.busy]:
                return chance.choice(found)
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.02)


def _home(pid: int, name: str) -> Path:
    return Path(f"/proc/{pid}", name)


@dataclass
class Injector:
    """Injects a schedule, and keeps a log of what it did and when: `since` is the start of the run."""

    processes: Processes
    disk: Path | None  # a small disk, where one can be mounted
    since: float
    log: list[dict[str, object]] = field(default_factory=list)
    cut: list[tuple[float, float]] = field(default_factory=list)  # when connections may have been cut: API workers died

    def now(self) -> float:
        return round(time.monotonic() - self.since, 2)

    async def run(self, faults: Iterable[Fault], seed: int) -> None:
        chance = random.Random(seed)
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                await asyncio.sleep(max(0.0, fault.at - self.now()))
                group.create_task(self._inject(fault, random.Random(chance.random())))

    async def _inject(self, fault: Fault, chance: random.Random) -> None:
        entry: dict[str, object] = {"at": self.now(), "fault": fault.name, "seconds": fault.seconds}
        self.log.append(entry)
        pid = None if fault.what == "disk" else await self.processes.one(fault.target, chance)
        if pid is None and fault.what != "disk":
            entry["skipped"] = "no such process at this moment"
            return
        begun = self.now()
        entry |= {"at": begun, "pid": pid}
        try:
            if pid is None:
                await self._fill_disk(fault, entry)
            else:
                self.processes.busy.add(pid)
                await getattr(self, f"_{fault.what}")(pid, fault.seconds, entry)
        except ProcessLookupError:
            entry["remark"] = "it has ended meanwhile"
        finally:
            self.processes.busy.discard(pid or 0)
            entry["until"] = self.now()
            if fault.target == "api":
                self.cut.append((begun, self.now()))

    async def _kill(self, pid: int, _seconds: float, _entry: dict[str, object]) -> None:
        os.kill(pid, signal.SIGKILL)

    async def _stop(self, pid: int, seconds: float, _entry: dict[str, object]) -> None:
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    async def _hang(self, pid: int, seconds: float, entry: dict[str, object]) -> None:
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + seconds
        while alive(pid):
            if time.monotonic() > deadline:
                entry["bad"] = f"it hung for {seconds:g} s and was not replaced"
                os.kill(pid, signal.SIGCONT)
                return
            await asyncio.sleep(0.2)

    async def _descriptors(self, pid: int, seconds: float, entry: dict[str, object]) -> None:
        entry["limit"] = limit = sum(1 for _ in _home(pid, "fd").iterdir()) + SPARE_DESCRIPTORS
        with limited(pid, resource.RLIMIT_NOFILE, limit):
            await asyncio.sleep(seconds)

    async def _memory(self, pid: int, seconds: float, entry: dict[str, object]) -> None:
        pages = int(_home(pid, "statm").read_text().split()[0])
        entry["limit"] = limit = pages * resource.getpagesize() + SPARE_MEMORY
        with limited(pid, resource.RLIMIT_AS, limit):
            await asyncio.sleep(seconds)

    async def _fill_disk(self, fault: Fault, entry: dict[str, object]) -> None:
        if self.disk is None:
            entry["skipped"] = "no disk can be mounted here"
            return
        fill(self.disk)
        await asyncio.sleep(fault.seconds)
        resize(self.disk, DISK)


@contextlib.contextmanager
def limited(pid: int, which: int, limit: int) -> Iterator[None]:
    soft, hard = resource.prlimit(pid, which)
    resource.prlimit(pid, which, (limit, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, which, (soft, hard))


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A tmpfs on the folder; None where this process may not mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(disk: Path) -> None:
    """Leave no byte free. It cannot become smaller than what is used, and the server may write meanwhile."""
    for _ in range(TRIES):
        used = os.statvfs(disk)
        with contextlib.suppress(subprocess.CalledProcessError):
            resize(disk, (used.f_blocks - used.f_bfree) * used.f_frsize)
            return
    raise OSError(f"{disk} cannot be filled")


def resize(disk: Path, size: int) -> None:
    command = ["mount", "-o", f"remount,size={max(size, 4096)}", str(disk)]
    subprocess.run(command, check=True, capture_output=True)
