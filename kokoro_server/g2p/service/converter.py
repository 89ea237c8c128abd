"""Converts text of any language: each language is loaded when first used, and used by one thread at a time."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Sequence

from kokoro_server import languages
from kokoro_server.errors import G2PUnavailable, SetupError
from kokoro_server.g2p import extras
from kokoro_server.g2p.service import phonemizers
from kokoro_server.g2p.service.lanes import ConversionLane, LaneText, TextBatch, ThreadLane
from kokoro_server.g2p.service.phonemizers import Phonemizer
from kokoro_server.g2p.service.workers import Closeable, WorkerPool
from kokoro_server.languages import LANGUAGES, Language

log = logging.getLogger(__name__)

PRELOADED = languages.ENGLISH
STUCK_AFTER = 60.0  # seconds on one text: the longest text allowed takes less than one


class Converter:
    """Converts texts one after another in a single thread. Languages are loaded in other threads.

    The phonemizers keep state between calls and share spaCy's, and Chinese and Japanese call English. They are bound by
    the interpreter's lock anyway, so more threads would need locks and gain nothing. Processes do gain: English may
    have several, as a GPU speaks more of it than one process converts.
    """

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None
        self._phonemizers: dict[Language, Phonemizer] = {}
        self._thread = ThreadLane(self._phonemizers)
        self._failures: dict[Language, str] = {}
        self._loading: defaultdict[Language, asyncio.Lock] = defaultdict(asyncio.Lock)

    def preload(self) -> None:
        """Load English; raises SetupError if it cannot be loaded."""
        for language in PRELOADED:
            if language not in self._phonemizers:
                try:
                    self._load(language)
                except G2PUnavailable as error:
                    raise SetupError(error.message) from error

    def start_workers(self, count: int, *inherited: Closeable) -> None:
        """Fork `count` processes for English, before any thread is started. For `inherited` see `WorkerPool`."""
        self.preload()
        if count > 1 and sys.platform == "linux":
            self._pool = WorkerPool(count, {known: self._phonemizers[known] for known in PRELOADED}, *inherited)

    async def connect(self) -> None:
        """Begin to read the workers' answers."""
        if self._pool:
            await self._pool.connect()

    @property
    def workers(self) -> int:
        """How many texts are converted at once."""
        return self._pool.count if self._pool else 1

    async def submit(self, texts: Sequence[tuple[str, Language]], *, bulk: bool = False) -> asyncio.Future[list[bytes]]:
        """The texts' conversions as JSON, in order. Texts that wait when the future is cancelled are not converted.

        `bulk`: behind the texts of all urgent calls.
        """
        for language in {language for _, language in texts}:
            await self._load_once(language)
        batch, by_lane = TextBatch(len(texts), bulk=bulk), defaultdict[ConversionLane, list[LaneText]](list)
        for index, (text, language) in enumerate(texts):
            by_lane[self._lane(language)].append(LaneText(batch, index, text, language))
        for lane, lane_texts in by_lane.items():
            lane.add(lane_texts)
        return batch.answer

    def readiness(self) -> dict[str, str]:
        """`ready`, `not_loaded`, `not_installed` or `failed: <reason>` for each language."""
        return {language.code: self._state(language) for language in LANGUAGES}

    @property
    def stuck(self) -> bool:
        busy = [lane.busy_since for lane in self._lanes()]
        return any(since is not None and time.monotonic() - since > STUCK_AFTER for since in busy)

    def close(self) -> None:
        for lane in self._lanes():
            lane.close()

    def _lanes(self) -> Sequence[ConversionLane]:
        return (self._thread, self._pool) if self._pool else (self._thread,)

    def _lane(self, language: Language) -> ConversionLane:
        return self._pool if self._pool and language in PRELOADED else self._thread

    def _state(self, language: Language) -> str:
        if language in self._phonemizers:
            return "ready"
        if not extras.is_installed(language):
            return extras.NOT_INSTALLED
        return f"failed: {self._failures[language]}" if language in self._failures else "not_loaded"

    async def _load_once(self, language: Language) -> None:
        if language not in self._phonemizers:
            async with self._loading[language]:
                if language not in self._phonemizers:
                    await asyncio.to_thread(self._load, language)

    def _load(self, language: Language) -> None:
        extras.require(language)
        started = time.perf_counter()
        try:
            loaded = phonemizers.load(language, self._phonemizers.get(languages.EN_US))
        except Exception as error:
            self._failures[language] = f"{type(error).__name__}: {error}"
            raise G2PUnavailable(
                f"{language.name} cannot be loaded: {error}; pip install kokoro-server", retry_after=60
            ) from error
        self._failures.pop(language, None)
        self._phonemizers[language] = loaded
        log.info("loaded language=%s seconds=%.1f", language.code, time.perf_counter() - started)
