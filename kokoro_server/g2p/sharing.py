"""Calls to G2P that many requests share, so that a crowd costs few calls and a lone request waits for nobody."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kokoro_server.errors import G2PUnavailable, KokoroError
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.phonemes import Phonemes

CALLS = 2  # at once, one worked on and one waiting; while both are under way, texts gather for the next
TOGETHER = 16  # texts in a shared call: an answer comes when all of them are done

Convert = Callable[[Sequence[str], Language], Awaitable[list[Phonemes]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    texts: Sequence[str]
    language: Language
    answer: asyncio.Future[list[Phonemes]]


class SharedCalls:
    """A text that G2P refuses costs only the request that it came from. What nobody waits for any more is not asked."""

    def __init__(self, convert: Convert) -> None:
        self._convert = convert
        self._waiting: deque[_Wish] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._starting = False  # the newest of them has not chosen its texts yet

    async def convert(self, texts: Sequence[str], language: Language) -> list[Phonemes]:
        """The phonemes of each text, in order."""
        answer: asyncio.Future[list[Phonemes]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Wish(texts, language, answer))
        self._start()
        return await answer

    async def aclose(self) -> None:
        """Fail what is under way."""
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)

    def _start(self) -> None:
        if self._waiting and not self._starting and len(self._calls) < CALLS:
            self._starting = True
            call = asyncio.create_task(self._call())
            self._calls.add(call)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._start()

    def _next(self) -> list[_Wish]:
        """The oldest wish and those in its language that there is room for, in order."""
        first, *others = self._waiting
        self._waiting.clear()
        chosen, count = [first], len(first.texts)
        for wish in others:
            if wish.language == first.language and count + len(wish.texts) <= TOGETHER:
                chosen.append(wish)
                count += len(wish.texts)
            else:
                self._waiting.append(wish)
        return chosen

    async def _call(self) -> None:
        # Chosen only now, so that what came in the same turn of the event loop is asked together.
        wishes = [wish for wish in self._next() if not wish.answer.done()]
        self._starting = False
        self._start()
        call = asyncio.current_task()
        assert call is not None

        def abandoned(_: object) -> None:
            if all(wish.answer.done() for wish in wishes):
                call.cancel()

        for wish in wishes:
            wish.answer.add_done_callback(abandoned)
        try:
            await self._answer(wishes)
        finally:
            for wish in wishes:
                wish.answer.remove_done_callback(abandoned)
                if not wish.answer.done():
                    wish.answer.set_exception(G2PUnavailable("the call to G2P was broken off", retry_after=1.0))

    async def _answer(self, wishes: list[_Wish]) -> None:
        texts = [text for wish in wishes for text in wish.texts]
        try:
            spoken = await self._convert(texts, wishes[0].language) if texts else []
        except G2PUnavailable as error:
            _fail(wishes, error)
        except KokoroError as error:
            if len(wishes) == 1:
                _fail(wishes, error)
                return
            for wish in wishes:
                await self._answer([wish])
        except Exception as error:
            _fail(wishes, error)
        else:
            start = 0
            for wish in wishes:
                end = start + len(wish.texts)
                if not wish.answer.done():
                    wish.answer.set_result(spoken[start:end])
                start = end


def _fail(wishes: Sequence[_Wish], error: Exception) -> None:
    for wish in wishes:
        if not wish.answer.done():
            wish.answer.set_exception(error)
