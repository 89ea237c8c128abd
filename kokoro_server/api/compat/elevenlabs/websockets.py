"""`/stream-input` and `/multi-stream-input`: speech for voice agents whose text is still being written.

Both take text in bits of any length and send audio with the times of characters. A sentence is spoken as soon as it is
complete; `flush`, or `auto_mode` in the query, says that a message ends one. `{"text": ""}` ends `/stream-input`, which
closes when all text is spoken, and is a sign of life on `/multi-stream-input`.

A socket of `/multi-stream-input` has several contexts, which are spoken side by side. `close_context` ends one. After a
flush, which ends a turn, the whole context is still spoken, then `isFinal` is sent. Inside a turn, or if the context
was closed before, the agent has been interrupted, and everything unsent is dropped. ElevenLabs describes it this way,
and pipecat and LiveKit rely on it. `close_socket` speaks all contexts to their end. A text that comes with either is
the last one of its turn. A name may be used again at once: its new context is sent after the previous one.

A wrong message is answered with an error, then the socket is closed with 1008. It is also closed if the client has sent
nothing, and nothing was spoken, for `inactivity_timeout` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import TypeAdapter

from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import agent_session
from kokoro_server.api.agents.text import AgentText, DeliveryOptions
from kokoro_server.api.compat.elevenlabs import output_formats
from kokoro_server.api.compat.elevenlabs.context import ContextSpeech, ElevenLabsContext, refuse
from kokoro_server.api.compat.elevenlabs.schemas import (
    DEFAULT_INACTIVITY,
    ElevenLabsMessage,
    SocketQuery,
    request_fields,
)
from kokoro_server.api.errors import validated
from kokoro_server.api.state import app_state, get_services
from kokoro_server.errors import BadRequest, KokoroError

router = APIRouter()

MESSAGE: TypeAdapter[ElevenLabsMessage] = TypeAdapter(ElevenLabsMessage)
CHECKS = 10  # for speech, within `inactivity_timeout`
MAX_CONTEXTS = 20  # of a socket, with those that are closed and not spoken to their end


@router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
async def stream_input(socket: WebSocket, voice_id: str) -> None:
    """The top of this module describes the protocol."""
    await _converse(socket, voice_id, single=True)


@router.websocket("/v1/text-to-speech/{voice_id}/multi-stream-input")
async def multi_stream_input(socket: WebSocket, voice_id: str) -> None:
    """The top of this module describes the protocol."""
    await _converse(socket, voice_id, single=False)


async def _delivery(socket: WebSocket, query: SocketQuery) -> DeliveryOptions:
    """Raises KokoroError if the query's options are not possible."""
    output = output_formats.parse(query.output_format)
    voices = get_services(socket).voices
    delivery = DeliveryOptions(**request_fields(await voices.hold(query.voice_id), query, None, output))
    await delivery.check(voices)
    return delivery


async def _converse(socket: WebSocket, voice_id: str, *, single: bool) -> None:
    async def conversation() -> None:
        try:
            query = validated(SocketQuery.model_validate, {**socket.query_params, "voice_id": voice_id})
            contexts = _Contexts(socket, query, await _delivery(socket, query))
        except KokoroError as error:
            await _first_message(socket)
            await refuse(socket, error)
            return
        handler = _StreamInput(contexts) if single else _MultiStreamInput(contexts)
        try:
            async with contexts, _closed_when_idle(socket, contexts) as clock:
                async for message in sockets.messages(socket):
                    clock.restart()
                    await handler.handle(sockets.parsed(message, MESSAGE))
        except KokoroError as error:
            await refuse(socket, error)

    await sockets.converse(socket, conversation)


async def _first_message(socket: WebSocket) -> None:
    """LiveKit hangs if the socket is closed before it has sent its first message."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DEFAULT_INACTIVITY):
            await anext(sockets.messages(socket))


class _Contexts:
    """The contexts of a socket."""

    def __init__(self, socket: WebSocket, query: SocketQuery, delivery: DeliveryOptions) -> None:
        self._socket = socket
        self._query = query
        self._delivery = delivery
        self._ends_files = output_formats.parse(query.output_format).is_bare
        self.inactivity_timeout = query.inactivity_timeout
        self._open: dict[str | None, _Held] = {}
        self._closed: list[_Held] = []  # not spoken to their end yet
        self._ended: list[_Held] = []
        self.closing = False  # whether the socket closes when all is spoken

    async def __aenter__(self) -> _Contexts:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stopping:
            for held in (*self._open.values(), *self._closed, *self._ended):
                stopping.push_async_exit(held.stack)

    @property
    def is_speaking(self) -> bool:
        return any(held.context.is_speaking for held in (*self._open.values(), *self._closed))

    async def add(self, message: ElevenLabsMessage) -> None:
        """Adds the text of a message to its context, which is opened if necessary."""
        held = self._open.get(message.context_id) or await self._opened(message.context_id)
        await held.context.adjust(message.voice_settings)
        await held.context.add(message.text or "", whole=self._query.auto_mode)

    async def flush(self, message: ElevenLabsMessage) -> None:
        if held := self._open.get(message.context_id):
            # With auto_mode each text is spoken at once: LiveKit flushes each, and once more at the end of a turn.
            ends_turn = bool(message.close_context) or not (self._query.auto_mode and message.text)
            await held.context.flush(ends_turn=ends_turn, ends_file=self._ends_files)

    async def close(self, context_id: str | None) -> None:
        if held := self._open.pop(context_id, None):
            self._closed.append(held)
            await held.context.close()
            return
        for held in [held for held in self._closed if held.context_id == context_id]:
            if held in self._closed:  # still: dropping an earlier one takes time
                await held.context.drop()

    async def end_all(self) -> None:
        """Closes the socket when all is spoken."""
        self.closing = True
        opened = list(self._open.values())
        self._open.clear()
        self._closed += opened  # all at once: the socket closes when this list is empty
        for held in opened:
            await held.context.end()
        await self._close_socket_at_end()

    async def _opened(self, context_id: str | None) -> _Held:
        await self._release_ended()
        if len(self._open) + len(self._closed) >= MAX_CONTEXTS:
            raise BadRequest(f"at most {MAX_CONTEXTS} contexts may be open at once; close one", field="context_id")
        state = app_state(self._socket)
        stack = AsyncExitStack()
        ended = asyncio.Event()
        # A client cannot tell two contexts of one name apart, so they are sent one after the other.
        before = next((held.ended for held in reversed(self._closed) if held.context_id == context_id), None)

        async def on_end() -> None:
            self._closed.remove(held)
            self._ended.append(held)
            ended.set()
            await self._close_socket_at_end()

        speech = ContextSpeech(self._socket, context_id, on_end, before, cumulative=self._query.sync_alignment)
        session = await stack.enter_async_context(agent_session(state, speech, file="turn"))
        text = AgentText(session, state.services)
        held = self._open[context_id] = _Held(
            context_id, ElevenLabsContext(session, text, speech.characters), stack, ended
        )
        await text.use(self._delivery)
        return held

    async def _close_socket_at_end(self) -> None:
        if self.closing and not self._closed:
            await sockets.close(self._socket)

    async def _release_ended(self) -> None:
        """Stops ended sessions when the next one begins: a session cannot stop itself."""
        ended, self._ended = self._ended, []
        for held in ended:
            await held.stack.aclose()


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    context_id: str | None
    context: ElevenLabsContext
    stack: AsyncExitStack
    ended: asyncio.Event


class _StreamInput:
    """One context. An empty text ends it."""

    def __init__(self, contexts: _Contexts) -> None:
        self._contexts = contexts

    async def handle(self, message: ElevenLabsMessage) -> None:
        if self._contexts.closing:
            if message.text:
                raise BadRequest("the text has ended; open another socket for more", field="text")
            return
        message.context_id = None
        if message.text:
            await self._contexts.add(message)
        if message.flush:
            await self._contexts.flush(message)
        if message.text == "":
            await self._contexts.end_all()


class _MultiStreamInput:
    """Contexts by name. Messages without a name share one context."""

    def __init__(self, contexts: _Contexts) -> None:
        self._contexts = contexts

    async def handle(self, message: ElevenLabsMessage) -> None:
        if message.text:
            if self._contexts.closing:
                raise BadRequest("the socket is closing; open another one for more", field="text")
            await self._contexts.add(message)
        if message.flush or (message.text and message.close_context):  # the last text of a turn, which is then whole
            await self._contexts.flush(message)
        if message.close_socket:
            await self._contexts.end_all()
        elif message.close_context:
            await self._contexts.close(message.context_id)


@dataclass(slots=True)
class _Clock:
    timeout: float
    end: float = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.end = asyncio.get_running_loop().time() + self.timeout

    @property
    def left(self) -> float:
        return self.end - asyncio.get_running_loop().time()


@asynccontextmanager
async def _closed_when_idle(socket: WebSocket, contexts: _Contexts) -> AsyncIterator[_Clock]:
    """Closes the socket when the clock runs down. Messages and speech restart it."""
    clock = _Clock(contexts.inactivity_timeout)

    async def watch() -> None:
        while (left := clock.left) > 0:
            await asyncio.sleep(min(left, clock.timeout / CHECKS))
            if contexts.is_speaking:
                clock.restart()
        with suppress(WebSocketDisconnect):
            await refuse(socket, BadRequest(f"nothing was received for {clock.timeout:g} seconds (inactivity_timeout)"))

    watching = asyncio.create_task(watch())
    try:
        yield clock
    finally:
        watching.cancel()
