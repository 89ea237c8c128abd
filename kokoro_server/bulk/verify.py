"""Hears what was made, with Whisper in a process of its own: how much of it differs from what was to be said."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import numpy as np
import soundfile

from kokoro_server.errors import SetupError

RATE = 16_000  # Hz
NICENESS = 10  # it takes what synthesis leaves
# A character of a script without spaces is a word of its own.
WORD = re.compile(r"[぀-ヿ㐀-鿿가-힣]|(?:(?![぀-ヿ㐀-鿿가-힣])[^\W_])+")


class Listener:
    """A queue of lines to be heard, and who hears them. Use as a context manager."""

    def __init__(self, model: str) -> None:
        """`model` is a name that faster-whisper knows, or the path of a folder."""
        if find_spec("faster_whisper") is None:
            raise SetupError("--verify hears with faster-whisper, not installed: pip install 'kokoro-server[asr]'")
        self._model = model
        self._waiting = deque[int]()
        self._changed = asyncio.Event()
        self._ended = False
        self._process = ProcessPoolExecutor(1, get_context("spawn"), initializer=partial(os.nice, NICENESS))

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.shutdown(wait=False, cancel_futures=True)

    def put(self, index: int) -> None:
        self._waiting.append(index)
        self._changed.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._changed.set()

    async def get(self) -> int | None:
        while not self._waiting:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    async def hear(self, content: bytes, record: dict[str, Any]) -> dict[str, Any]:
        said = " ".join(word["text"] for word in record["words"]) or record.get("text") or ""
        language = (record.get("language") or record["voice"][:1]).lower()
        loop = asyncio.get_running_loop()
        try:
            heard = await loop.run_in_executor(self._process, transcribe, self._model, content, language)
        except soundfile.SoundFileError as error:
            return {"wer": None, "heard": None, "not_heard": f"the format cannot be read: {error}"}
        except BrokenProcessPool as error:
            raise SetupError("--verify: the process that hears has ended; is there enough memory?") from error
        return {"wer": round(word_error_rate(said, heard), 4), "heard": heard}


# Whisper's names of the languages, by a voice's first letter.
LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}


def transcribe(model: str, content: bytes, language: str) -> str:
    audio, rate = soundfile.read(io.BytesIO(content), dtype="float32")
    known = LANGUAGES.get(language, language[:2])
    segments, _ = _whisper(model).transcribe(_at_16_khz(audio, rate), language=known, beam_size=5, temperature=0.0)
    return " ".join(segment.text.strip() for segment in segments)


@cache
def _whisper(model: str) -> Any:
    from faster_whisper import WhisperModel

    return WhisperModel(model, device="cpu", compute_type="int8")


def _at_16_khz(audio: Any, rate: int) -> Any:
    import soxr

    return soxr.resample(audio, rate, RATE) if rate != RATE else audio


def word_error_rate(said: str, heard: str) -> float:
    """Edits that turn what was said into what was heard, per word said. Case and marks do not count."""
    one, other = words(said), words(heard)
    return edits(one, other) / max(len(one), 1)


def words(text: str) -> list[str]:
    return WORD.findall(re.sub(r"['’]", "", text.casefold()))


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    row = np.arange(len(other) + 1)
    for number, word in enumerate(one, 1):
        kept = row[:-1] + np.fromiter((word != candidate for candidate in other), bool, len(other))
        best = np.minimum(row[1:] + 1, kept)
        row = np.minimum.accumulate(np.concatenate([[number], best]) - np.arange(len(row))) + np.arange(len(row))
    return int(row[-1])
