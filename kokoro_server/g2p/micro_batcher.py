"""Batches the texts of many requests into few calls to G2P. A lone request waits for nobody, and callers take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kokoro_server.caller import caller
from kokoro_server.errors import G2PUnavailable, KokoroError
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.result import G2PResult

MAX_CALLS_IN_FLIGHT = 2  # one is worked on and one waits; meanwhile texts gather for the next
MAX_TEXTS_PER_CALL = 16  # of several requests: the response comes when all of them are done

Convert = Callable[[Sequence[str], Language], Awaitable[list[G2PResult]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    caller: str
    turn: int
    texts: Sequence[str]
    language: Language
    future: asyncio.Future[list[G2PResult]]


class MicroBatcher:
    """A text that G2P refuses fails only its own request. Texts that nobody waits for any more are not sent."""

    def __init__(self, convert: Convert) -> None:
        self._convert = convert
        self._waiting: list[_Request] = []  # in order of arrival
        self._turn = 0  # of the call that was formed last
        self._last_turns: dict[str, int] = {}  # of each caller that has a request waiting
        self._calls: set[asyncio.Task[None]] = set()
        self._forming = False  # the newest call has not chosen its requests yet

    async def convert(self, texts: Sequence[str], language: Language) -> list[G2PResult]:
        """The phonemes of each text, in order."""
        future: asyncio.Future[list[G2PResult]] = asyncio.get_running_loop().create_future()
        name = caller.get()
        # A caller's requests have one turn after another. One that comes only now is not before those who have waited.
        turn = self._last_turns[name] = max(self._turn, self._last_turns.get(name, 0)) + 1
        self._waiting.append(_Request(name, turn, texts, language, future))
        self._start_call()
        return await future

    async def aclose(self) -> None:
        """Fail the calls in flight."""
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)

    def _start_call(self) -> None:
        if self._waiting and not self._forming and len(self._calls) < MAX_CALLS_IN_FLIGHT:
            self._forming = True
            call = asyncio.create_task(self._call())
            self._calls.add(call)
            call.add_done_callback(self._on_call_done)

    def _on_call_done(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._start_call()

    def _take_batch(self) -> list[_Request]:
        """The first request and those in its language that there is room for, in order of turns."""
        first, *others = sorted(self._waiting, key=lambda request: request.turn)
        self._turn = first.turn
        batch, count = [first], len(first.texts)
        for request in others:
            if request.language == first.language and count + len(request.texts) <= MAX_TEXTS_PER_CALL:
                batch.append(request)
                count += len(request.texts)
        taken = set(batch)
        self._waiting = [request for request in self._waiting if request not in taken]
        self._last_turns = {request.caller: request.turn for request in self._waiting}
        return batch

    async def _call(self) -> None:
        # The batch is taken only now, so that requests of the same turn of the event loop go together.
        batch = [request for request in self._take_batch() if not request.future.done()]
        self._forming = False
        self._start_call()
        call = asyncio.current_task()
        assert call is not None

        def cancel_if_abandoned(_: object) -> None:
            if all(request.future.done() for request in batch):
                call.cancel()

        for request in batch:
            request.future.add_done_callback(cancel_if_abandoned)
        try:
            await self._resolve(batch)
        finally:
            for request in batch:
                request.future.remove_done_callback(cancel_if_abandoned)
                if not request.future.done():
                    request.future.set_exception(G2PUnavailable("the call to G2P was broken off", retry_after=1.0))

    async def _resolve(self, batch: list[_Request]) -> None:
        texts = [text for request in batch for text in request.texts]
        try:
            results = await self._convert(texts, batch[0].language) if texts else []
        except G2PUnavailable as error:
            _fail(batch, error)
        except KokoroError as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for request in batch:
                await self._resolve([request])
        except Exception as error:
            _fail(batch, error)
        else:
            start = 0
            for request in batch:
                end = start + len(request.texts)
                if not request.future.done():
                    request.future.set_result(results[start:end])
                start = end


def _fail(batch: Sequence[_Request], error: Exception) -> None:
    for request in batch:
        if not request.future.done():
            request.future.set_exception(error)
