"""A real server whose engine misbehaves on cue: a row's speed says how. `python -m tests.services.faulty`."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kokoro_server import logs
from kokoro_server.app import create_app
from kokoro_server.config import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import Engine, Limits, Result, Row
from kokoro_server.serving import run
from tests import tiny

RAISES, NAN, SILENT, LOST, LATE_FAILURE, HANGS, SLOW = 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07
SLOWNESS = 0.5  # seconds for each row
HUNG = 12.0  # seconds, after which a call that hangs returns
LONG_ENOUGH = 70  # tokens: the first piece of the test's long text is shorter, the later ones are not
ARRIVAL = 0.5  # seconds, in which the first piece reaches its listener: a browser may drop it if the end comes with it


class Faulty:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def device(self) -> str:
        return self._engine.device

    @property
    def limits(self) -> Limits:
        return self._engine.limits

    def warmup(self) -> None:
        self._engine.warmup()

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        for row in rows:
            if row.speed == RAISES:
                raise RuntimeError("a bad row")
            if row.speed == LATE_FAILURE and len(row.tokens) > LONG_ENOUGH:
                time.sleep(ARRIVAL)
                raise RuntimeError("a bad row")
            if row.speed == HANGS:
                time.sleep(HUNG)
            if row.speed == SLOW:
                time.sleep(SLOWNESS)
            if row.speed == LOST:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return [_spoilt(row, result) for row, result in zip(rows, self._engine.synthesize(rows), strict=True)]


def _spoilt(row: Row, result: Result) -> Result:
    if row.speed == NAN:
        return dataclasses.replace(result, audio=np.full_like(result.audio, np.nan))
    if row.speed == SILENT:
        return dataclasses.replace(result, audio=np.zeros_like(result.audio))
    return result


def load(folder: Path, settings: Settings) -> LoadedModel:
    model = tiny.load(folder, len(settings.devices) or 1, settings.backend)
    return dataclasses.replace(model, engines=tuple(map(Faulty, model.engines)))


if __name__ == "__main__":
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    with tempfile.TemporaryDirectory() as folder:
        run(create_app(settings, load=lambda settings: load(Path(folder), settings)), settings)
