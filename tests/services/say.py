"""`kokoro-server say` as a process, with an engine that needs no weights, or with the tiny model (SAY_ENGINE=tiny).

`python -m tests.services.say ARGUMENTS`, settings from the environment. SAY_SLOWNESS are seconds that a row takes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kokoro_server.cli import main as cli
from kokoro_server.cli import say
from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, EngineLimits, Result, Row
from kokoro_server.longform.books import passages
from kokoro_server.observability import logs
from tests import tiny

FRAMES_PER_TOKEN = 1


class NoisyEngine:
    """Every phoneme is a noise of its own: the same row is always the same samples."""

    device = "double"
    limits = EngineLimits(max_tokens=510, max_rows=2, max_padded_frames=100_000)

    def __init__(self) -> None:
        self._slowness = float(os.environ.get("SAY_SLOWNESS", "0"))

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        time.sleep(self._slowness)
        return [_result(row) for row in rows]


def _result(row: Row) -> Result:
    samples = FRAMES_PER_TOKEN * SAMPLES_PER_FRAME
    silence = np.zeros(samples)
    sounds = [np.random.default_rng(token).normal(scale=0.1, size=samples) for token in row.tokens]
    durations = np.full(len(row.tokens) + 2, FRAMES_PER_TOKEN, dtype=np.int64)
    return Result(np.concatenate([silence, *sounds, silence]).astype(np.float32), durations)


def load(settings: Settings) -> LoadedModel:
    folder = Path(tempfile.mkdtemp())
    if os.environ.get("SAY_ENGINE") == "tiny":
        return tiny.load(folder, 1, settings.backend)
    return LoadedModel((NoisyEngine(),), ModelFacts(tiny.write_voices(folder), "fp32", "path"))


def main(arguments: Sequence[str]) -> int:
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    passages.LIMIT = 200  # characters: a short book has many of them
    return say.run(settings, cli._parser().parse_args(["say", *arguments]), load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
