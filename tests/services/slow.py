"""A real server around the tiny model on a CPU that is slow, and has measured that. `python -m tests.services.slow`."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path

from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLE_RATE, Engine, EngineLimits, Result, Row
from tests.services import tiny


class Slow:
    """Takes SLOW_FACTOR seconds for a second of audio. That is a number, or a file that holds it."""

    device = "cpu"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        factor = os.environ["SLOW_FACTOR"]
        self.real_time_factor: float | None = float(Path(factor).read_text() if Path(factor).is_file() else factor)
        self.present_factor = self.real_time_factor

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    def warmup(self) -> None: ...

    def measure(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        results = self._engine.synthesize(rows)
        assert self.real_time_factor
        time.sleep(self.real_time_factor * sum(len(result.audio) for result in results) / SAMPLE_RATE)
        return results


def load(settings: Settings, folder: str | None = None) -> LoadedModel:
    model = tiny.load(settings, folder)
    return dataclasses.replace(model, engines=tuple(map(Slow, model.engines)))


if __name__ == "__main__":
    tiny.main("tests.services.slow:load", load)
