"""Batches the texts of many requests into few calls to G2P. Callers take turns."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kokoro_server.callers.current import caller
from kokoro_server.errors import G2PFailed, G2PUnavailable, KokoroError
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language
from kokoro_server.observability import tracing

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span

MAX_TEXTS_PER_CALL = 16  # of several requests: the response comes when all are done

PendingText = tuple[str, Language]
Convert = Callable[[Sequence[PendingText]], Awaitable[list[G2PResult]]]


class CallBrokenOff(G2PUnavailable, code=G2PUnavailable.code):
    """The service ended during a call. One of its texts may be the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    caller: str
    turn: int
    texts: Sequence[PendingText]
    future: asyncio.Future[list[G2PResult]]
    trace: Span | None


class MicroBatcher:
    """A text that G2P refuses fails only its own request. Texts of cancelled requests are not sent.

    Requests of a call that was broken off are sent again, each in a call of its own, and one at a time of all batchers
    that share the lock `suspects`. So a text that ends the service twice is known, and costs no other request.

    A lone request does not wait. Waiting requests are spread over the free calls: the fewer texts a call has, the
    sooner it is answered. With `gather` it is the other way round, as fewer calls cost less: a call that is not full
    begins `gather` seconds after the one before.
    """

    def __init__(
        self, convert: Convert, max_calls: int, gather: float = 0.0, suspects: asyncio.Lock | None = None
    ) -> None:
        self.max_calls = max_calls  # in flight at once
        self._convert = convert
        self._gather = gather
        self._suspects = suspects or asyncio.Lock()
        self._gathering: asyncio.TimerHandle | None = None
        self._last_call = float("-inf")  # when it began, by the event loop's clock
        self._waiting: list[tuple[int, int, _Request]] = []  # a heap, by turn and arrival
        self._waiting_texts = 0
        self._arrivals = itertools.count()
        self._turn = 0  # of the request that was taken last
        self._last_turns: dict[str, int] = {}  # of each caller that has a request waiting
        self._calls: set[asyncio.Task[None]] = set()
        self._forming = False  # the newest call has not chosen its requests yet
        self._is_closed = False

    async def convert(self, texts: Sequence[str], language: Language) -> list[G2PResult]:
        """The phonemes of each text, in order."""
        if self._is_closed:
            raise _broken_off()
        future: asyncio.Future[list[G2PResult]] = asyncio.get_running_loop().create_future()
        name = caller.get()
        # A caller's requests have one turn after another. A caller that comes only now is not before those that waited.
        turn = self._last_turns[name] = max(self._turn, self._last_turns.get(name, 0)) + 1
        request = _Request(name, turn, [(text, language) for text in texts], future, tracing.current())
        heapq.heappush(self._waiting, (turn, next(self._arrivals), request))
        self._waiting_texts += len(texts)
        self._start_call()
        return await future

    async def aclose(self) -> None:
        """Fail the calls in flight and the waiting requests."""
        self._is_closed = True
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        while self._waiting:
            _fail([self._take()], _broken_off())
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)

    def _start_call(self) -> None:
        if not self._waiting or self._forming or len(self._calls) >= self.max_calls:
            return
        loop = asyncio.get_running_loop()
        if self._waiting_texts < MAX_TEXTS_PER_CALL and loop.time() < self._last_call + self._gather:
            if self._gathering is None:
                self._gathering = loop.call_at(self._last_call + self._gather, self._gathered)
            return
        self._last_call = loop.time()
        self._forming = True
        call = asyncio.create_task(self._call())
        self._calls.add(call)
        call.add_done_callback(self._on_call_done)

    def _gathered(self) -> None:
        self._gathering = None
        self._start_call()

    def _on_call_done(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._start_call()

    def _take_batch(self) -> list[_Request]:
        """This call's share of the waiting requests, in order of turns."""
        free_calls = 1 if self._gather else max(1, self.max_calls - len(self._calls) + 1)
        room = min(MAX_TEXTS_PER_CALL, math.ceil(self._waiting_texts / free_calls))
        batch = [self._take()]
        room -= len(batch[0].texts)
        while self._waiting and len(self._waiting[0][2].texts) <= room:
            batch.append(self._take())
            room -= len(batch[-1].texts)
        self._turn = batch[0].turn
        return batch

    def _take(self) -> _Request:
        turn, _, request = heapq.heappop(self._waiting)
        self._waiting_texts -= len(request.texts)
        if self._last_turns[request.caller] == turn:
            del self._last_turns[request.caller]
        return request

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
                    request.future.set_exception(_broken_off())

    async def _resolve(self, batch: list[_Request], *, suspect: bool = False) -> None:
        """`suspect`: the request was in a call that was broken off."""
        texts = [text for request in batch for text in request.texts]
        try:
            with tracing.shared_step("g2p call", (request.trace for request in batch)):
                results = await self._convert(texts) if texts else []
        except CallBrokenOff:
            if suspect:
                beginning = texts[0][0][:40]
                _fail(batch, G2PFailed(f"the G2P service has ended twice over the text that begins {beginning!r}"))
                return
            for request in batch:
                async with self._suspects:
                    if not request.future.done():
                        await self._resolve([request], suspect=True)
        except G2PUnavailable as error:
            _fail(batch, error)
        except KokoroError as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for request in batch:
                if not request.future.done():
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


def _broken_off() -> G2PUnavailable:
    return G2PUnavailable("the call to G2P was broken off", retry_after=1.0)


def _fail(batch: Sequence[_Request], error: Exception) -> None:
    for request in batch:
        if not request.future.done():
            request.future.set_exception(error)
