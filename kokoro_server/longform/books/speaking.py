"""Speaks the passages of a book, many at once, and keeps each one when it is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Literal

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import BadRequest, KokoroError, NothingToSay, Unavailable, first_of
from kokoro_server.longform.books.assembly import trimmed
from kokoro_server.longform.books.passages import Passage
from kokoro_server.longform.books.plan import Plan
from kokoro_server.longform.books.work_folder import Kept, WorkFolder
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech_backend import SpeechBackend

MAX_AT_ONCE = 32  # passages: some hundred rows for the devices, and a few hundred megabytes of memory
TRIES = 5  # of a passage that fails by no fault of its text
TRIES_OF_ABSENT = 14  # while no backend is available: a server that restarts may load its model for minutes
BACKOFF = Backoff(1.0, longest=30.0)

Phase = Literal["speaking", "levelling", "writing"]


@dataclass(frozen=True, slots=True)
class BookProgress:
    phase: Phase
    done: int  # spoken characters, or assembled passages
    total: int
    seconds: float = 0.0  # of audio so far
    left: float | None = None  # estimated seconds until all is spoken; None while unknown
    chapters: frozenset[int] | None = None  # numbers of spoken chapters, from 0; None: all


OnBookProgress = Callable[[BookProgress], None]


class Narration:
    def __init__(self, backend: SpeechBackend, work: WorkFolder, plan: Plan, report: OnBookProgress) -> None:
        self._backend = backend
        self._work = work
        self._plan = plan
        self._report = report
        self._started = time.monotonic()
        self._samples = 0
        self._done = 0  # characters
        self._done_before = 0  # characters, by an earlier run
        self._total = 0
        self._missing_in: dict[int, set[str]] = {}  # keys of the passages that a chapter lacks
        self._chapters_with: dict[str, set[int]] = {}  # several, if they have the same words in the same voice
        self._spoken_chapters: set[int] = set()
        self.spoken = 0  # passages of this run

    async def run(self, keys: Sequence[str]) -> None:
        """Speak the passages that are not kept yet. `keys` are those of the plan's passages."""
        passages = dict(zip(keys, self._plan.passages, strict=True))
        for key, passage in zip(keys, self._plan.passages, strict=True):
            self._missing_in.setdefault(passage.chapter, set()).add(key)
            self._chapters_with.setdefault(key, set()).add(passage.chapter)
        self._total = sum(passage.characters for passage in passages.values())
        missing: list[tuple[str, Passage]] = []
        for key, passage in passages.items():
            kept = await asyncio.to_thread(self._work.get, key)
            if kept is None:
                missing.append((key, passage))
            else:
                self._done_before += passage.characters
                self._samples += kept.samples
                self._strike_out(key)
        self._done = self._done_before
        self._started = time.monotonic()
        self._report_progress()
        waiting = iter(missing)
        at_once = max(2, min(self._backend.parallel, MAX_AT_ONCE))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(missing))):
                    group.create_task(self._work_through(waiting))
        except* KokoroError as failed:
            raise first_of(failed) from None

    async def _work_through(self, waiting: Iterator[tuple[str, Passage]]) -> None:
        for key, passage in waiting:
            kept = await self._speak(passage)
            await asyncio.to_thread(self._work.put, key, kept, self._facts(passage))
            self.spoken += 1
            self._samples += kept.samples
            self._done += passage.characters
            self._strike_out(key)
            self._report_progress()

    async def _speak(self, passage: Passage) -> Kept:
        for tried in count(1):
            try:
                spoken = await self._backend.speak(passage.speech())
            except NothingToSay:
                return Kept(b"", (), sum(map(str.isalnum, passage.text)))
            except BadRequest as error:
                title = self._plan.title(passage.chapter)
                raise type(error)(f"chapter {passage.chapter + 1}, {title!r}: {error.message}") from error
            except KokoroError as error:
                if error.status < 500 or tried >= (TRIES_OF_ABSENT if isinstance(error, Unavailable) else TRIES):
                    raise
                await asyncio.sleep(BACKOFF.wait(tried))
            else:
                pcm, words = await asyncio.to_thread(trimmed, spoken.pcm, spoken.words)
                return Kept(pcm, tuple(words), spoken.skipped)
        raise AssertionError("unreachable")

    def _facts(self, passage: Passage) -> JsonObject:
        return {
            "text": sha256(passage.text.encode()).hexdigest(),
            "voice": passage.choice.voice,
            "language": passage.choice.language,
            "speed": passage.speed,
            "version": self._backend.version,
        }

    def _strike_out(self, key: str) -> None:
        for chapter in self._chapters_with[key]:
            self._missing_in[chapter].discard(key)
            if not self._missing_in[chapter]:
                self._spoken_chapters.add(chapter)

    def _report_progress(self) -> None:
        made, elapsed = self._done - self._done_before, time.monotonic() - self._started
        left = (self._total - self._done) * elapsed / made if made else None
        chapters = frozenset(self._spoken_chapters)
        self._report(BookProgress("speaking", self._done, self._total, self._samples / SAMPLE_RATE, left, chapters))
