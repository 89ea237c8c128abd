"""One connection: the client's requests, answered in order.

    describe                         info: all voices
    ping                             pong
    synthesize                       audio-start, audio-chunk …, audio-stop
    synthesize-start, -chunk …, -stop  the same while the text is still being written; then synthesize-stopped. A
                                     synthesize in between, meant for servers that do not stream, is ignored
    anything else                    ignored

A request that fails is answered with an error; the next one may follow. If none does, the connection is closed: Home
Assistant before 2026.11 does not know the error event and would wait for ever. Data that is not an event ends the
connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

from pydantic import TypeAdapter
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeStopped

from kokoro_server.api.agents.session import agent_session
from kokoro_server.api.agents.text import AgentText
from kokoro_server.api.compat.wyoming import voices
from kokoro_server.api.compat.wyoming.turn import SpokenReply
from kokoro_server.api.compat.wyoming.wire import EventReader, EventWriter, check_values, content
from kokoro_server.api.middleware.access_log import new_request_id, outcome
from kokoro_server.api.middleware.guard.middleware import caller_at
from kokoro_server.api.middleware.shutdown import shutting_down
from kokoro_server.api.state import AppState
from kokoro_server.callers.current import caller
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.errors import CLIENT_CLOSED_REQUEST, BadRequest, KokoroError, for_client
from kokoro_server.observability import tracing
from kokoro_server.observability.logs import outage, request_id

log = logging.getLogger(__name__)

SYNTHESIZE = TypeAdapter(Synthesize)
START = TypeAdapter(SynthesizeStart)
CHUNK = TypeAdapter(SynthesizeChunk)
ANSWERED = ("synthesize", "synthesize-start", "synthesize-chunk", "synthesize-stop")  # in their order
EVENTS_AHEAD = 16  # read while an earlier one is being answered
ERROR_GRACE = 2.0  # seconds after an error in which another request may come
CLOSE_GRACE = 5.0  # seconds in which a client may read the last answer

Speak = Callable[[Event, SpokenReply, AgentText], Awaitable[None]]


class Ended(Exception):
    """The conversation is over."""


class WyomingConnection:
    """uvicorn counts it among its own connections, and calls `shutdown`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: AppState) -> None:
        self._state = state
        self._services = state.services
        settings = self._services.settings
        self._idle_limit = settings.stream_idle_timeout
        self._stream = reader
        self._transport = writer.transport
        self._reader = EventReader(reader, settings.max_text_length, settings.max_body_size, settings.read_timeout)
        self._writer = EventWriter(writer, settings.stream_idle_timeout, self._count_stalled)
        self._address = str((writer.get_extra_info("peername") or ("unknown",))[0])
        self._events: asyncio.Queue[Event] = asyncio.Queue(EVENTS_AHEAD)
        self._turn: SpokenReply | None = None
        self._in_stream = False  # from a synthesize-start to its synthesize-stop
        self._stopping = False
        self._closing: asyncio.TimerHandle | None = None  # where the last request has failed
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Runs until the client leaves, the connection idles or the server stops."""
        self._task = asyncio.current_task()
        caller.set(caller_at(self._address))
        request_id.set(new_request_id())
        try:
            speech_defaults.set(self._services.defaults)  # of this task, and those below
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._handle_all())
                tasks.create_task(self._read_all())
        except* (Ended, ConnectionError):
            pass
        except* KokoroError as group:
            await self._refuse(group.exceptions[0])
        except* Exception as group:
            log.error("a Wyoming connection failed", exc_info=group)
            await self._refuse(for_client(group))
        finally:
            self._close()

    async def refuse(self, error: KokoroError) -> None:
        """Sends the error in place of a conversation."""
        log.warning("refused: %s", error.message)
        try:
            await self._refuse(error)
        finally:
            self._close()

    def shutdown(self) -> None:
        """The server stops: a complete request is answered first."""
        self._stopping = True
        if self._turn is None and self._task:
            self._task.cancel()
        elif self._turn and not self._turn.has_all_text:
            self._turn.fail(shutting_down())

    @property
    def _is_answering(self) -> bool:
        """Whether the client waits for an answer."""
        return self._turn is not None and self._turn.has_all_text

    async def _read_all(self) -> None:
        """Answers ping and describe at once, and queues what else is answered. It notices that the client has left."""
        while True:
            await self._begin_event()
            event = await self._reader.read()
            if event is None:
                raise ConnectionResetError("the client has left")
            if Ping.is_type(event.type):
                self._stay()
                await self._writer.send(Pong(text=event.data.get("text")))
            elif Describe.is_type(event.type):
                self._stay()
                await self._writer.send(await voices.info(self._services))
            elif event.type in ANSWERED:
                check_values(event)
                await self._events.put(event)
            await asyncio.sleep(0)  # events that have arrived already are read without yielding to the event loop

    async def _begin_event(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._idle_limit):
                    await self._reader.begin()
                return
            except TimeoutError:
                if not self._is_answering:
                    raise Ended from None

    async def _handle_all(self) -> None:
        while not self._stopping:
            event = await self._events.get()
            if SynthesizeStart.is_type(event.type):
                self._in_stream = True
                await self._answer(event, self._speak_stream)
            elif SynthesizeStop.is_type(event.type):
                self._in_stream = False  # of a stream that failed
            elif Synthesize.is_type(event.type) and not self._in_stream:
                await self._answer(event, self._speak_whole)
        raise Ended

    async def _answer(self, event: Event, speak: Speak) -> None:
        with tracing.root_step(f"WYOMING {event.type}") as span:
            if (error := await self._answer_one(event, speak)) and span is not None:
                span.fail(error.code)

    async def _answer_one(self, event: Event, speak: Speak) -> KokoroError | None:
        """Answers and logs one request. Returns its error if it failed."""
        self._stay()
        started, status = time.perf_counter(), CLIENT_CLOSED_REQUEST
        request_id.set(new_request_id())
        turn = self._turn = SpokenReply(self._writer)
        try:
            async with AsyncExitStack() as stack:
                await self._take_place(stack)
                session = await stack.enter_async_context(agent_session(self._state, turn, file="turn"))
                await speak(event, turn, AgentText(session, self._services))
            status = 200
        except KokoroError as error:
            status = error.status
            await self._send_error(error)
            return error
        finally:
            self._turn = None
            self._record(event.type, status, time.perf_counter() - started)
        return None

    async def _take_place(self, stack: AsyncExitStack) -> None:
        if self._state.running.stopping:
            raise shutting_down()
        stack.callback(await self._state.limits.enter(caller.get()))
        stack.callback(self._state.places.take())

    async def _speak_whole(self, event: Event, turn: SpokenReply, text: AgentText) -> None:
        turn.has_all_text = True
        request = content(event, SYNTHESIZE)
        await text.use(await voices.delivery(request.voice, request.text_format, self._services.voices))
        text.say(request.text)
        await text.flush()
        await turn.wait()

    async def _speak_stream(self, event: Event, turn: SpokenReply, text: AgentText) -> None:
        start = content(event, START)
        await text.use(await voices.delivery(start.voice, start.text_format, self._services.voices))
        feeding = asyncio.create_task(self._feed(turn, text))
        try:
            await turn.wait()
        finally:
            feeding.cancel()
            await asyncio.wait({feeding})
        await self._writer.send(SynthesizeStopped())

    async def _feed(self, turn: SpokenReply, text: AgentText) -> None:
        try:
            while not SynthesizeStop.is_type((event := await self._events.get()).type):
                if SynthesizeStart.is_type(event.type):
                    raise BadRequest("synthesize-start: the previous stream has no synthesize-stop")
                if SynthesizeChunk.is_type(event.type):
                    await text.append(content(event, CHUNK).text)
            self._in_stream = False
            turn.has_all_text = True
            await text.flush()
        except KokoroError as error:
            turn.fail(error)
        except Exception as error:
            log.exception("the text of a Wyoming stream failed")
            turn.fail(for_client(error))

    async def _send_error(self, error: KokoroError) -> None:
        log.warning("wyoming request failed code=%s message=%s", error.code, error.message, extra=outage(error))
        await self._writer.send(Error(text=error.message, code=error.code))
        if self._task:
            self._closing = asyncio.get_running_loop().call_later(ERROR_GRACE, self._task.cancel)

    def _stay(self) -> None:
        """Keeps the connection open: a new request shows that the client understood the error."""
        if self._closing:
            self._closing.cancel()

    def _record(self, kind: str, status: int, seconds: float) -> None:
        log.info("request method=WYOMING path=%s status=%d ms=%.1f", kind, status, seconds * 1000)
        self._services.metrics.requests.labels("wyoming", outcome(status)).inc()
        self._services.metrics.request_time.observe(seconds)

    def _count_stalled(self) -> None:
        log.warning("broken off, the client took nothing for %g s address=%s", self._idle_limit, self._address)
        self._state.streams.stalled += 1
        self._services.metrics.stalled.inc()

    async def _refuse(self, error: BaseException) -> None:
        """Sends the error, then reads on for a while: closing with unread bytes resets the connection and loses it."""
        assert isinstance(error, KokoroError)
        with suppress(OSError):  # TimeoutError is one of them
            await self._writer.send(Error(text=error.message, code=error.code))
            if self._transport.can_write_eof():
                self._transport.write_eof()
            async with asyncio.timeout(CLOSE_GRACE):
                while await self._stream.read(65_536):
                    pass

    def _close(self) -> None:
        if self._closing:
            self._closing.cancel()
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_GRACE, self._transport.abort)
