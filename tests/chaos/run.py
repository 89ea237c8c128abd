"""A run: learn what is right, let things go wrong, then see that all is well again."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from kokoro_server.runtime.event_loop import QUIET
from kokoro_server.runtime.files import OwnedFolder
from tests import servers
from tests.chaos import faults, state
from tests.chaos.faults import Injector, Processes
from tests.chaos.verdicts import Judge
from tests.chaos.work import Bulk, Jobs
from tests.faults.machine import described
from tests.servers import Server
from tests.soak import load
from tests.soak.kinds import SPEECH

HEALTHY = 120.0  # seconds after the last fault
OTHERS = (".ses",)  # of ONNX Runtime, which keeps it for the next process
GONE = 30.0  # seconds in which nothing is left of a server that was killed


@dataclass(frozen=True)
class Options:
    seconds: float
    seed: int = 1
    processes: int = 2
    model: str = "tiny"
    device: str = "cpu"
    clients: int = 8
    variants: int = 8  # of each kind of request
    gap: tuple[float, float] = faults.GAP
    long_work: bool = True  # jobs and bulk runs beside the load


def run(options: Options, log: Path) -> dict[str, Any]:
    """`log` gets the server's own. The result has `violations`: what is not as promised."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name, _serving(options, Path(name), log) as (server, disk):
        found = asyncio.run(_chaos(server, options, Path(name), disk))
        found["violations"] += _last_act(server, Path(name))
    return described() | asdict(options) | found


@contextlib.contextmanager
def _serving(options: Options, folder: Path, log: Path) -> Iterator[tuple[Server, Path | None]]:
    store = folder / "store"
    store.mkdir()
    with faults.small_disk(store) as disk:
        for path in (store / "tmp", store / "jobs", folder / "voices"):
            path.mkdir()
        environ = {
            "SOAK_MODEL": options.model,
            "SOAK_TMPDIR": tempfile.gettempdir(),
            "KOKORO_DEVICE": options.device,
            "SERVER_PROCESSES": str(options.processes),
            "G2P_WORKERS": "2",
            "QUEUE_TIMEOUT": "120",
            "FIRST_CHUNK_MAX_TOKENS": "50",  # else a stream's length hangs on how fast the machine is at the moment
            "WYOMING_PORT": str(servers.free_port()),
            "JOBS_PATH": str(store / "jobs"),
            "VOICES_PATH": str(folder / "voices"),
            "TMPDIR": str(store / "tmp"),
        }
        if options.model == "tiny":
            environ["KOKORO_BACKEND"] = "onnx"
        try:
            with servers.running(servers.SOAK, folder / "log", **environ) as server:
                yield server, disk
        finally:
            shutil.copy(folder / "log", log)


async def _chaos(server: Server, options: Options, folder: Path, disk: Path | None) -> dict[str, Any]:
    folders = {"temporary files": folder / "store/tmp", "jobs": folder / "store/jobs", "/dev/shm": Path("/dev/shm")}
    processes = Processes(server.process.pid, options.processes)
    async with load.client(server, options.clients) as client:
        judge = Judge(client, SPEECH, options.variants)
        jobs, bulk = Jobs(judge), Bulk(judge, server.url, folder)
        await judge.learn()
        if options.long_work:
            await bulk.learn()
            await jobs.learn()
        await asyncio.sleep(QUIET)
        before = state.holding(server.process.pid, folders)
        injector = Injector(processes, disk, time.monotonic())
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for n in range(options.clients):
                group.create_task(judge.keep_asking(injector, f"{options.seed} {n}", done))
            if options.long_work:
                group.create_task(bulk.keep_running(injector, done))
                group.create_task(jobs.keep_submitting(injector, done))
            planned = faults.schedule(options.seed, options.seconds, options.processes, options.gap)
            await injector.run(planned, options.seed)
            await asyncio.sleep(max(0.0, options.seconds - injector.now()))
            done.set()
        violations = [f"{entry['fault']} at {entry['at']}: {entry['bad']}" for entry in injector.log if "bad" in entry]
        violations += await _healthy(server, client)
        await asyncio.gather(*jobs.following)
        violations += await _right_again(judge, injector)
    after = await asyncio.to_thread(state.settled, before, server.process.pid, folders)
    violations += [f"{each['kind']} from {each['from']}: {each['why']}" for each in judge.bad]
    violations += [f"more than before: {each}" for each in state.grown(before, after)]
    verdicts: dict[str, dict[str, int]] = {}
    for (name, verdict), count in judge.counts.items():
        verdicts.setdefault(name, {})[verdict] = count
    return {
        "verdicts": verdicts,
        "slowest": judge.slowest,
        "before": before,
        "after": after,
        "files": {name: sorted(str(path) for path in each.rglob("*")) for name, each in folders.items()},
        "log": injector.log,
        "bad": judge.bad,
        "violations": violations,
    }


async def _healthy(server: Server, client: httpx.AsyncClient) -> list[str]:
    deadline = time.monotonic() + HEALTHY
    while (about := (await client.get("/health")).json())["status"] != "ok":
        if time.monotonic() > deadline:
            return [f"not healthy {HEALTHY:g} s after the last fault: {about}"]
        await asyncio.sleep(0.5)
    return [] if server.process.poll() is None else ["the server has ended"]


async def _right_again(judge: Judge, injector: Injector) -> list[str]:
    """Ask everything once more: now every answer must be right."""
    before = judge.counts.copy()
    for kind in judge.kinds:
        await judge.ask(injector, kind, 0)
    wrong = {name: verdict for name, verdict in judge.counts - before if verdict != "right"}
    return [f"{name}: {verdict} though all was well again" for name, verdict in wrong.items()]


def _last_act(server: Server, folder: Path) -> list[str]:
    """A server that is killed leaves no processes behind, and no files that the next one does not remove."""
    below = servers.family(server.process.pid)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    deadline = time.monotonic() + GONE
    left = [pid for pid in below if not servers.gone_within(pid, max(0.0, deadline - time.monotonic()))]
    wrong = [f"{len(left)} processes outlive the server that was killed"] if left else []
    temporary = folder / "store/tmp"
    for prefix in ("kokoro-engine-", "kokoro-g2p-"):
        OwnedFolder(prefix, str(temporary)).cleanup()  # as the next server does
    files = [path.name for path in temporary.iterdir() if path.name not in OTHERS]
    return [*wrong, f"left in TMPDIR by the server that was killed: {files}"] if files else wrong
