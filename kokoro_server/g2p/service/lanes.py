"""The texts that wait for G2P: calls take turns, bulk is behind the others. One begins as soon as there is room."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kokoro_server.errors import G2PFailed, KokoroError
from kokoro_server.g2p import schemas
from kokoro_server.languages import Language

if TYPE_CHECKING:
    from kokoro_server.g2p.service.phonemizers import Phonemizer

log = logging.getLogger(__name__)

TEXTS_PER_TURN = 8  # a call that has no more is answered sooner than if others had their turn in the middle of it
URGENT_MEMORY = 5.0  # seconds after a text that is not bulk, in which another is to be expected
BULK_SKIP_LIMIT = 4  # texts in a row that may go before one in bulk that waits
Conversion = bytes | str  # a conversion as JSON, or why there is none
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # espeak takes \x00 for the end of the text


def run_phonemizer(phonemizer: Phonemizer, language: Language, text: str) -> Conversion:
    """If it fails, the log has the traceback."""
    try:
        return schemas.encode(phonemizer(_CONTROL_CHARACTERS.sub(" ", text)), language)
    except Exception as error:
        log.exception("conversion failed characters=%d start=%r", len(text), text[:80])
        return repr(error)


class TextBatch:
    """A call's texts. `answer` has their conversions in order, as JSON, or the first failure; it may be cancelled."""

    def __init__(self, size: int, *, bulk: bool = False) -> None:
        self.bulk = bulk
        self.answer: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._conversions = [b""] * size
        self._missing = size

    def set_conversion(self, index: int, conversion: bytes) -> None:
        self._conversions[index] = conversion
        self._missing -= 1
        if not self._missing and not self.answer.done():
            self.answer.set_result(self._conversions)

    def fail(self, error: KokoroError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class LaneText:
    """One text of a batch."""

    batch: TextBatch
    index: int
    text: str
    language: Language


class Turns:
    """Calls that wait. They take turns: a long one holds up no other.

    What nobody waits for any more, and what is left of a call that has failed, is dropped.
    """

    def __init__(self) -> None:
        self._calls: deque[deque[LaneText]] = deque()  # the texts of each, in order of turns
        self._taken = 0  # of the first call, in its present turn

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __iter__(self) -> Iterator[LaneText]:
        return itertools.chain.from_iterable(self._calls)

    def add(self, jobs: deque[LaneText]) -> None:
        self._calls.append(jobs)

    def put_back(self, job: LaneText) -> None:
        self._calls.appendleft(deque([job]))

    def clear(self) -> None:
        self._calls.clear()

    def take(self) -> LaneText | None:
        while self._calls:
            jobs = self._calls[0]
            if jobs[0].batch.answer.done():
                self._end_turn(keep=False)
                continue
            job = jobs.popleft()
            self._taken += 1
            if not jobs or self._taken == TEXTS_PER_TURN:
                self._end_turn(keep=bool(jobs))
            return job
        return None

    def _end_turn(self, *, keep: bool) -> None:
        self._taken = 0
        jobs = self._calls.popleft()
        if keep:
            self._calls.append(jobs)


class ConversionLane(ABC):
    """Converts texts, of which so many are under way at once. Those in bulk go when no others wait, or now and then.

    While others come, so much room is `kept_free` of bulk: what is under way does not stop for them.
    """

    def __init__(self, room: int, kept_free: int = 0) -> None:
        self._room = room
        self._kept_free = kept_free
        self._bulk_under_way = 0
        self._last_urgent = float("-inf")  # when a text came that is not bulk
        self._waiting, self._bulk = Turns(), Turns()
        self._went_before = 0  # texts in a row that went before one in bulk
        self._under_way: dict[int, tuple[LaneText, float]] = {}  # with the time when it was sent, the oldest first
        self._numbers = itertools.count()

    def add(self, jobs: Iterable[LaneText]) -> None:
        """Take on texts of one call, at least one."""
        call = deque(jobs)
        self._turns(call[0]).add(call)
        if not call[0].batch.bulk:
            self._last_urgent = time.monotonic()
        self._fill()

    @property
    def busy_since(self) -> float | None:
        """When the text that has been under way longest was sent. What is next in line counts: it waits for little."""
        return next((since for _, since in self._under_way.values()), None)

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _send(self, number: int, job: LaneText) -> bool:
        """Whether there was room for it. `_finish` is to be called with that number when it is done."""

    def _finish(self, number: int, outcome: Conversion) -> None:
        job, _ = self._under_way.pop(number)
        self._bulk_under_way -= job.batch.bulk
        if isinstance(outcome, bytes):
            job.batch.set_conversion(job.index, outcome)
        else:
            start = job.text[:40]
            job.batch.fail(G2PFailed(f"the text that begins {start!r} cannot be converted: {outcome}"))
        self._fill()

    def _fail_all(self, error: KokoroError) -> None:
        under_way = [job for job, _ in self._under_way.values()]
        for job in itertools.chain(under_way, self._waiting, self._bulk):
            job.batch.fail(error)
        self._under_way.clear()
        self._bulk_under_way = 0
        self._waiting.clear()
        self._bulk.clear()

    def _fill(self) -> None:
        while len(self._under_way) < self._room and (job := self._take()):
            number = next(self._numbers)
            self._under_way[number] = job, time.monotonic()
            self._bulk_under_way += job.batch.bulk
            if not self._send(number, job):
                del self._under_way[number]
                self._bulk_under_way -= job.batch.bulk
                self._turns(job).put_back(job)
                return
            self._went_before = self._went_before + 1 if self._bulk and not job.batch.bulk else 0

    def _take(self) -> LaneText | None:
        kept_free = self._kept_free if time.monotonic() - self._last_urgent < URGENT_MEMORY else 0
        has_room = self._bulk_under_way < self._room - kept_free
        if has_room and self._went_before >= BULK_SKIP_LIMIT and (job := self._bulk.take()):
            return job
        return self._waiting.take() or (self._bulk.take() if has_room else None)

    def _turns(self, job: LaneText) -> Turns:
        return self._bulk if job.batch.bulk else self._waiting


class ThreadLane(ConversionLane):
    """A single thread of this process."""

    def __init__(self, phonemizers: Mapping[Language, Phonemizer]) -> None:
        super().__init__(room=2)  # one is next, so that the thread does not wait for the event loop
        self._phonemizers = phonemizers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="g2p")

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _send(self, number: int, job: LaneText) -> bool:
        loop, phonemizer = asyncio.get_running_loop(), self._phonemizers[job.language]
        conversion = loop.run_in_executor(self._thread, run_phonemizer, phonemizer, job.language, job.text)
        conversion.add_done_callback(lambda done: None if done.cancelled() else self._finish(number, done.result()))
        return True
