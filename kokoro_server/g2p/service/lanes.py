"""Texts that wait for G2P: calls take turns, and bulk waits behind urgent texts.

Turns are of calls, not of callers as in `runtime.fair_slots`: the service has one client and cannot know its callers.
"""

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

TEXTS_PER_TURN = 8  # a call with at most as many is answered in one turn
URGENT_MEMORY = 5.0  # seconds after an urgent text in which another is expected
BULK_SKIP_LIMIT = 4  # urgent texts in a row that may go before a waiting bulk text
ConversionOutcome = bytes | str  # a conversion as JSON, or why there is none
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # espeak takes \x00 for the end of the text


def run_phonemizer(phonemizer: Phonemizer, language: Language, text: str) -> ConversionOutcome:
    """The conversion, or the reason why it failed; then the log has the traceback."""
    try:
        return schemas.encode(phonemizer(_CONTROL_CHARACTERS.sub(" ", text)), language)
    except Exception as error:
        log.exception("conversion failed characters=%d start=%r", len(text), text[:80])
        return repr(error)


class TextBatch:
    """The texts of a call. `answer` gets their conversions, as JSON, or the first failure. It may be cancelled."""

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
    lost_workers: int = 0  # that ended while they converted it


class Turns:
    """Waiting calls. They take turns: a long one holds up no other. Texts of failed or cancelled calls are dropped."""

    def __init__(self) -> None:
        self._calls: deque[deque[LaneText]] = deque()  # the texts of each, in order of turns
        self._taken = 0  # of the first call, in its present turn

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __iter__(self) -> Iterator[LaneText]:
        return itertools.chain.from_iterable(self._calls)

    def add(self, texts: deque[LaneText]) -> None:
        self._calls.append(texts)

    def put_back(self, text: LaneText) -> None:
        self._calls.appendleft(deque([text]))

    def clear(self) -> None:
        self._calls.clear()

    def take(self) -> LaneText | None:
        while self._calls:
            texts = self._calls[0]
            if texts[0].batch.answer.done():
                self._end_turn(keep=False)
                continue
            text = texts.popleft()
            self._taken += 1
            if not texts or self._taken == TEXTS_PER_TURN:
                self._end_turn(keep=bool(texts))
            return text
        return None

    def _end_turn(self, *, keep: bool) -> None:
        self._taken = 0
        texts = self._calls.popleft()
        if keep:
            self._calls.append(texts)


class ConversionLane(ABC):
    """Converts up to `room` texts at once. Bulk goes when no urgent text waits, or now and then.

    While urgent texts come, `kept_free` of the room takes no bulk, as a conversion cannot be interrupted.
    """

    def __init__(self, room: int, kept_free: int = 0) -> None:
        self._room = room
        self._kept_free = kept_free
        self._bulk_under_way = 0
        self._last_urgent = float("-inf")  # when an urgent text came
        self._waiting, self._bulk = Turns(), Turns()
        self._went_before = 0  # urgent texts in a row that went before a bulk text
        self._under_way: dict[int, tuple[LaneText, float]] = {}  # with the time when it was sent, the oldest first
        self._numbers = itertools.count()

    def add(self, texts: Iterable[LaneText]) -> None:
        """Take on texts of one call, at least one."""
        call = deque(texts)
        self._turns(call[0]).add(call)
        if not call[0].batch.bulk:
            self._last_urgent = time.monotonic()
        self._fill()

    @property
    def busy_since(self) -> float | None:
        """When the oldest text under way was sent. The next in line counts, too: it waits for little."""
        return next((since for _, since in self._under_way.values()), None)

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _send(self, number: int, text: LaneText) -> bool:
        """Whether there was room for the text. `_finish` must be called with `number` when it is done."""

    def _finish(self, number: int, outcome: ConversionOutcome) -> None:
        if number not in self._under_way:  # it was sent twice, and answered before
            return
        text = self._take_back(number)
        if isinstance(outcome, bytes):
            text.batch.set_conversion(text.index, outcome)
        else:
            start = text.text[:40]
            text.batch.fail(G2PFailed(f"the text that begins {start!r} cannot be converted: {outcome}"))
        self._fill()

    def _take_back(self, number: int) -> LaneText:
        text, _ = self._under_way.pop(number)
        self._bulk_under_way -= text.batch.bulk
        return text

    def _fail_all(self, error: KokoroError) -> None:
        under_way = [text for text, _ in self._under_way.values()]
        for text in itertools.chain(under_way, self._waiting, self._bulk):
            text.batch.fail(error)
        self._under_way.clear()
        self._bulk_under_way = 0
        self._waiting.clear()
        self._bulk.clear()

    def _fill(self) -> None:
        while len(self._under_way) < self._room and (text := self._take()):
            number = next(self._numbers)
            self._under_way[number] = text, time.monotonic()
            self._bulk_under_way += text.batch.bulk
            if not self._send(number, text):
                self._turns(text).put_back(self._take_back(number))
                return
            self._went_before = self._went_before + 1 if self._bulk and not text.batch.bulk else 0

    def _take(self) -> LaneText | None:
        kept_free = self._kept_free if time.monotonic() - self._last_urgent < URGENT_MEMORY else 0
        has_room = self._bulk_under_way < self._room - kept_free
        if has_room and self._went_before >= BULK_SKIP_LIMIT and (text := self._bulk.take()):
            return text
        return self._waiting.take() or (self._bulk.take() if has_room else None)

    def _turns(self, text: LaneText) -> Turns:
        return self._bulk if text.batch.bulk else self._waiting


class ThreadLane(ConversionLane):
    """A single thread of this process."""

    def __init__(self, phonemizers: Mapping[Language, Phonemizer]) -> None:
        super().__init__(room=2)  # one is next, so that the thread does not wait for the event loop
        self._phonemizers = phonemizers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="g2p")

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _send(self, number: int, text: LaneText) -> bool:
        loop, phonemizer = asyncio.get_running_loop(), self._phonemizers[text.language]
        conversion = loop.run_in_executor(self._thread, run_phonemizer, phonemizer, text.language, text.text)
        conversion.add_done_callback(lambda done: None if done.cancelled() else self._finish(number, done.result()))
        return True
