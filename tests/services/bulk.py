"""`kokoro-server bulk` with the tiny model, or with a speaker that needs none: `python -m tests.services.bulk …`.

With BULK_SPEAKER=double in the environment nothing is loaded, and a text is a tone as long as it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_server.api.speech import parse_line
from kokoro_server.cli import bulk
from kokoro_server.cli import main as cli
from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import EngineError, KokoroError, NothingToSay
from kokoro_server.longform.bulk.makers.local import BackendMaker
from kokoro_server.observability import logs
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import Spoken

SAMPLES_PER_CHARACTER = 400


class DoubleSpeaker:
    """A tone for a text: its pitch by the voice and the seed. Some texts fail, always or at first."""

    version = "1"
    parallel = 8

    def __init__(self, seconds: float = 0.0) -> None:
        self.spoken: list[str] = []
        self._seconds = seconds

    def fingerprint(self, request: object) -> str:
        return ""

    async def speak(self, speech: Speech) -> Spoken:
        text = speech.written
        await asyncio.sleep(self._seconds)
        self.spoken.append(text)
        if text.startswith("silence"):
            raise NothingToSay("the text holds nothing that can be spoken", field="text")
        if text.startswith("broken") or (text.startswith("flaky") and self.spoken.count(text) == 1):
            raise EngineError("the model failed on this text")
        times = np.arange(len(text) * SAMPLES_PER_CHARACTER) / 24_000
        pitch = 200 + 7 * (speech.seed % 20) + sum(speech.voice.encode()) % 50
        pcm = (8_000 * np.sin(2 * np.pi * pitch * times)).astype("<i2").tobytes()
        return Spoken(pcm, (Timing(text, 0.0, round(len(times) / 24_000, 4), 0, len(text), phrase=False),))


@asynccontextmanager
async def open_double() -> AsyncIterator[BackendMaker]:
    yield BackendMaker(DoubleSpeaker(), parse_line)


def load_tiny(settings: Settings) -> LoadedModel:
    from tests import tiny

    return tiny.load(Path(tempfile.mkdtemp()), 1, settings.backend)


def main(arguments: list[str], speaker: DoubleSpeaker | None = None) -> int:
    """The command in this process. With a speaker, no model is loaded."""
    options = cli._parser().parse_args(["bulk", *arguments])
    settings = Settings.load(dotenv=None)
    if speaker:

        @asynccontextmanager
        async def maker(*_: Any) -> AsyncIterator[BackendMaker]:
            yield BackendMaker(speaker, parse_line)

        bulk._maker = maker
    return bulk.run(settings, options, load_tiny)


if __name__ == "__main__":
    logs.configure("info")
    double = DoubleSpeaker(0.002) if os.environ.get("BULK_SPEAKER") == "double" else None
    try:
        sys.exit(main(sys.argv[1:], double))
    except KokoroError as error:
        sys.stderr.write(f"kokoro-server: {error.message}\n")
        sys.exit(1)
