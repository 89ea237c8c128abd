"""Sentences in groups that are sent to G2P at once, and found without holding the event loop."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kokoro_server.languages import Language
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.script import Run
from kokoro_server.text.written import AlignedSentence, WrittenItem

# The most characters and sentences in the first call to G2P, the second and so on: few at first, so that synthesis can
# start early. A clip, which nobody hears before it is whole, begins with the second.
CALL_LIMITS = ((80, 2), (500, 8), (2_000, 32), (4_000, 64))
# A longer text, or one that has more numbers and signs, is read in a thread: each of these takes some 0.1 ms.
_LONG_TEXT = 2_000  # characters
_MANY_SIGNS = 10
_SIGN = re.compile(r"[0-9]+|[^\w\s.,;:!?'\"()-]+")
_LONGEST_TURN = 0.005  # seconds that a text may hold the event loop, about


@dataclass(frozen=True, slots=True)
class G2PCall:
    """The sentences of one call to G2P, and the pauses and runs between them. `more`: other calls follow."""

    items: Sequence[WrittenItem]
    language: Language
    more: bool


class LoopShare:
    """Keeps a long text from holding the event loop."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def give_way(self) -> None:
        """Lets other tasks run, if the text has held the event loop for long enough."""
        if time.perf_counter() - self._began > _LONGEST_TURN:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


def takes_time(text: str, options: ReadingOptions) -> bool:
    return len(text) > _LONG_TEXT or len(_SIGN.findall(text)) > _MANY_SIGNS or options.lexicon is not None


async def in_turns(calls: Iterator[G2PCall | None], *, in_thread: bool) -> AsyncIterator[G2PCall]:
    """The calls, made without holding the event loop: in a thread, or giving way now and then."""
    if in_thread:
        found = filter(None, calls)
        while call := await asyncio.to_thread(next, found, None):
            yield call
        return
    turn = LoopShare()
    for each in calls:
        if each is None:
            await turn.give_way()
        else:
            yield each


def group_into_calls(
    items: Iterable[WrittenItem | None], language: Language, limits: Sequence[tuple[int, int]] = CALL_LIMITS
) -> Iterator[G2PCall | None]:
    """The calls, each in one language; None in between, as each of the `items` may have taken a while.

    `language` is that of the sentences before the first run.
    """
    group, characters, count, calls = list[WrittenItem](), 0, 0, 0
    for item in items:
        yield None
        if item is None:
            continue
        changes = isinstance(item, Run) and item.delivery.language != language
        length = sum(map(len, item.texts)) if isinstance(item, AlignedSentence) else 0
        max_characters, max_count = limits[min(calls, len(limits) - 1)]
        if count and (changes or count == max_count or characters + length > max_characters):
            yield G2PCall(group, language, more=True)
            group, characters, count, calls = [], 0, 0, calls + 1
        if isinstance(item, Run):
            language = item.delivery.language
        group.append(item)
        characters += length
        count += not isinstance(item, Run)
    if group:
        yield G2PCall(group, language, more=False)
