"""A real server that tells about itself, unless it has several processes: `GET /test/runtime`.

`python -m tests.services.soak`. SOAK_MODEL says which model it has: tiny; random, which is one of the real size with
random weights, and needs neither files nor a network; or real. SOAK_TMPDIR is the folder for temporary files of what
only a server of the tests does: it makes a model when it starts, even where TMPDIR is full.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from tests.services import tiny
from tests.tiny import write_voices

BEAT = 0.01  # seconds
PITCH = 120.0  # Hz
BRISK = -2.4  # makes a phoneme about four frames long, as speech has it; random weights alone make 25 of it
MOST_THREADS = 64  # of the pool behind asyncio.to_thread, and of that for AAC encoders


class Heartbeat:
    """Wakes up every few milliseconds and notes by how much too late it did: since the last `tell`, and in all."""

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._histogram: Counter[int] = Counter()  # of all lags, in milliseconds

    async def beat(self) -> None:
        while True:
            due = time.perf_counter() + BEAT
            await asyncio.sleep(BEAT)
            lag = max(0.0, time.perf_counter() - due)
            self._lags.append(lag)
            self._histogram[math.ceil(1000 * lag)] += 1

    def tell(self) -> dict[str, float]:
        lags, self._lags = sorted(self._lags), []
        if not lags:
            return {}
        found = {"p50": lags[len(lags) // 2], "p99": lags[int(len(lags) * 0.99)], "max": lags[-1]}
        milliseconds = {name: round(1000 * seconds, 2) for name, seconds in found.items()}
        return milliseconds | {"beats": len(lags), "p99_in_all": self._p99()}

    def _p99(self) -> int:
        later = 0.01 * self._histogram.total()
        for lag in sorted(self._histogram, reverse=True):
            later -= self._histogram[lag]
            if later < 0:
                return lag
        return 0


def load(settings: Settings, folder: str | None = None) -> LoadedModel:
    kind = os.environ.get("SOAK_MODEL", "tiny")
    if kind == "real":
        return loader.load(settings)
    tempfile.tempdir, own = os.environ.get("SOAK_TMPDIR"), tempfile.tempdir
    try:
        return _load_made(settings, kind, folder or tempfile.mkdtemp())
    finally:
        tempfile.tempdir = own


def _load_made(settings: Settings, kind: str, folder: str) -> LoadedModel:
    if kind == "tiny":
        return tiny.load(settings, folder)
    import torch

    from kokoro_server.engine import devices
    from kokoro_server.engine.model import reference
    from kokoro_server.engine.torch_engine import TorchEngine

    torch.manual_seed(0)
    model, device = reference.blank(), devices.pick_device(settings.device)
    with torch.no_grad():
        model.predictor.F0_proj.bias.fill_(PITCH)  # voiced
        model.predictor.duration_proj.linear_layer.bias.fill_(BRISK)
    on_gpu = device.type == "cuda"
    engine = (
        devices.on_cuda(model, device, devices.CudaOptions(settings.gpu_precision, settings.gpu_memory_fraction))
        if on_gpu
        else None
    )
    engine = engine or TorchEngine.of(model, device)
    engine.warmup()
    return LoadedModel((engine,), ModelFacts(write_voices(Path(folder)), "fp32", "path", "torch"))


def device_memory() -> dict[str, int]:
    """Bytes, where there is a GPU in use."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    free, total = torch.cuda.mem_get_info()
    return {"reserved": torch.cuda.memory_reserved(), "peak": torch.cuda.max_memory_reserved(), "used": total - free}


class Mallinfo(ctypes.Structure):
    """What glibc's `mallinfo2` returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]  # fmt: skip


def heap() -> dict[str, float]:
    """What this process has of the memory that it holds: Python's small objects, and the rest in MB."""
    try:
        mallinfo = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):  # not glibc
        return {}
    mallinfo.restype = Mallinfo
    info = mallinfo()
    megabytes = {"used": info.uordblks, "free": info.fordblks, "mapped": info.hblkhd}
    return {"objects": sys.getallocatedblocks()} | {name: round(held / 1e6, 1) for name, held in megabytes.items()}


def with_heartbeat(app: FastAPI, heart: Heartbeat) -> None:
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            # Python's pools start their threads as they are needed, and keep them: they are no leak.
            for pool in (None, app.state.renderers._threads):
                waits = (asyncio.get_running_loop().run_in_executor(pool, time.sleep, 0.1) for _ in range(MOST_THREADS))
                await asyncio.gather(*waits)
            beating = asyncio.create_task(heart.beat())
            yield state
            beating.cancel()

    app.router.lifespan_context = lifespan


def add_routes(app: FastAPI) -> None:
    heart = Heartbeat()

    async def runtime() -> dict[str, Any]:
        tasks = len(asyncio.all_tasks())
        return {"lag_ms": heart.tell(), "device_memory": device_memory(), "heap": heap(), "tasks": tasks}

    app.add_api_route("/test/runtime", runtime)
    with_heartbeat(app, heart)


if __name__ == "__main__":
    tiny.main("tests.services.soak:load", load, add_routes)
