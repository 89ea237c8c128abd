"""A real server whose engine misbehaves on cue: a row's speed says how. `python -m tests.services.faulty`.

What reaches into the event loop has a path of its own, where the server is one process: `POST /test/kill-worker`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fastapi import FastAPI

from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import Engine, EngineLimits, Result, Row
from tests.services import tiny

RAISES, NAN, SILENT, LOST, LATE_FAILURE, HANGS = 1.01, 1.02, 1.03, 1.04, 1.05, 1.06
OUT_OF_MEMORY, TOO_FEW, SLOW, THREAD_DIES, SLOW_ROW = 1.07, 1.08, 1.09, 1.11, 1.12
CLOCK_STEPS = {1.13: -86_400, 1.14: 86_400}  # seconds by which the wall clock is moved while a row runs
# A call that hangs and a late failure wait for the file HANG_ENDS, where the environment names one.
LOOK = 0.5  # seconds, from one look at that file to the next
HUNG = 12.0  # seconds, after which a call that hangs returns without one
SLOWNESS = 1.0  # seconds, a hundred times what a row of the tiny model takes
ROW_SLOWNESS = 0.5  # seconds for each row
LONG_ENOUGH = 70  # tokens: the first piece of the test's long text is shorter, the later ones are not
ARRIVAL = 0.5  # seconds, in which the first piece reaches its listener: a browser may drop it if the end comes with it


class Faulty:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def device(self) -> str:
        return self._engine.device

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    def warmup(self) -> None:
        self._engine.warmup()

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        speeds = {row.speed for row in rows}
        if RAISES in speeds or any(row.speed == LATE_FAILURE and len(row.tokens) > LONG_ENOUGH for row in rows):
            if LATE_FAILURE in speeds:
                hang(ARRIVAL)
            raise RuntimeError("a bad row")
        if HANGS in speeds:
            hang(HUNG)
        for speed in speeds & CLOCK_STEPS.keys():
            step_clock(CLOCK_STEPS[speed])
        if SLOW in speeds or speeds & CLOCK_STEPS.keys():
            time.sleep(SLOWNESS)
        time.sleep(ROW_SLOWNESS * sum(row.speed == SLOW_ROW for row in rows))
        if LOST in speeds:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if OUT_OF_MEMORY in speeds and len(rows) > 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if THREAD_DIES in speeds:
            raise SystemExit("the thread is told to end")
        results = [_spoilt(row, result) for row, result in zip(rows, self._engine.synthesize(rows), strict=True)]
        return results[:-1] if TOO_FEW in speeds else results


def _spoilt(row: Row, result: Result) -> Result:
    if row.speed == NAN:
        return dataclasses.replace(result, audio=np.full_like(result.audio, np.nan))
    if row.speed == SILENT:
        return dataclasses.replace(result, audio=np.zeros_like(result.audio))
    return result


def load(settings: Settings, folder: str | None = None) -> LoadedModel:
    model = tiny.load(settings, folder)
    return dataclasses.replace(model, engines=tuple(map(Faulty, model.engines)))


def hang(seconds: float) -> None:
    if (ends := os.environ.get("HANG_ENDS")) is None:
        time.sleep(seconds)
        return
    while not Path(ends).exists():
        time.sleep(LOOK)


def step_clock(seconds: float) -> None:
    """Move the wall clock of this process, as a wrong time server or a resumed machine does."""
    real = time.time
    time.time = lambda: real() + seconds  # type: ignore[assignment]


async def kill_worker() -> None:
    (worker,) = (task for task in asyncio.all_tasks() if task.get_name() == "kokoro-batch-worker")
    worker.cancel()


def _add_routes(app: FastAPI) -> None:
    app.add_api_route("/test/kill-worker", kill_worker, methods=["POST"])


if __name__ == "__main__":
    tiny.main("tests.services.faulty:load", load, _add_routes)
