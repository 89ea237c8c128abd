"""Converts text of any language: each language is loaded when first used, and used by one thread at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from kokoro_server.errors import G2PFailed, G2PUnavailable, SetupError
from kokoro_server.g2p import extras, languages, phonemizers
from kokoro_server.g2p.languages import LANGUAGES, Language
from kokoro_server.g2p.phonemizers import Phonemizer
from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.workers import Closeable, ConversionFailed, WorkerPool, run_phonemizer

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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="g2p")
        self._phonemizers: dict[Language, Phonemizer] = {}
        self._failures: dict[Language, str] = {}
        self._loading: defaultdict[Language, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._busy_since: float | None = None

    def preload(self) -> None:
        """Load English; raises SetupError if it cannot be loaded."""
        for language in PRELOADED:
            if language not in self._phonemizers:
                try:
                    self._load(language)
                except G2PUnavailable as error:
                    raise SetupError(error.message) from error

    def start_workers(self, count: int, *inherited: Closeable) -> None:
        """Fork so many processes for English, before any thread is started. For `inherited` see `WorkerPool`."""
        self.preload()
        if count > 1 and hasattr(os, "fork"):
            self._pool = WorkerPool(count, {known: self._phonemizers[known] for known in PRELOADED}, *inherited)

    @property
    def workers(self) -> int:
        """How many texts are converted at once."""
        return self._pool.count if self._pool else 1

    async def convert(self, text: str, language: Language) -> G2PResult:
        phonemizer = await self._phonemizer(language)
        try:
            if self._pool and language in PRELOADED:
                return await self._pool.convert(text, language)
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_alone, phonemizer, text)
        except ConversionFailed as error:
            raise G2PFailed(f"the text that begins {text[:40]!r} cannot be converted: {error}") from error

    def readiness(self) -> dict[str, str]:
        """`ready`, `not_loaded`, `not_installed` or `failed: <reason>` for each language."""
        return {language.code: self._state(language) for language in LANGUAGES}

    @property
    def stuck(self) -> bool:
        busy = (self._busy_since, self._pool.busy_since if self._pool else None)
        return any(since is not None and time.monotonic() - since > STUCK_AFTER for since in busy)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._pool:
            self._pool.close()

    def _state(self, language: Language) -> str:
        if language in self._phonemizers:
            return "ready"
        if not extras.is_installed(language):
            return extras.NOT_INSTALLED
        return f"failed: {self._failures[language]}" if language in self._failures else "not_loaded"

    async def _phonemizer(self, language: Language) -> Phonemizer:
        if language not in self._phonemizers:
            async with self._loading[language]:
                if language not in self._phonemizers:
                    await asyncio.to_thread(self._load, language)
        return self._phonemizers[language]

    def _load(self, language: Language) -> None:
        extras.require(language)
        started = time.perf_counter()
        try:
            loaded = phonemizers.load(language, self._phonemizers.get(languages.EN_US))
        except Exception as error:
            self._failures[language] = f"{type(error).__name__}: {error}"
            raise G2PUnavailable(
                f"{language.name} cannot be loaded: {error}; pip install 'kokoro-server[g2p]'", retry_after=60
            ) from error
        self._failures.pop(language, None)
        self._phonemizers[language] = loaded
        log.info("loaded language=%s seconds=%.1f", language.code, time.perf_counter() - started)

    def _run_alone(self, phonemizer: Phonemizer, text: str) -> G2PResult:
        self._busy_since = time.monotonic()
        try:
            return run_phonemizer(phonemizer, text)
        finally:
            self._busy_since = None
