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
from contextlib import AsyncExitStack, suppress

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import TypeAdapter

from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.elevenlabs import output_formats, stock_voices
from kokoro_server.api.compat.elevenlabs.context import ElevenLabsContext, refuse
from kokoro_server.api.compat.elevenlabs.schemas import (
    DEFAULT_INACTIVITY,
    ElevenLabsMessage,
    SocketQuery,
    request_fields,
)
from kokoro_server.api.compat.lenient import LenientDelivery
from kokoro_server.api.errors import validated
from kokoro_server.api.state import get_services
from kokoro_server.errors import BadRequest, KokoroError

router = APIRouter()

MESSAGE: TypeAdapter[ElevenLabsMessage] = TypeAdapter(ElevenLabsMessage)
CHECKS = 10  # for speech, within `inactivity_timeout`
MAX_CONTEXTS = 20  # of a socket, with those that are closed and not spoken to their end


@router.websocket("/v1/text-to-speech/{voice_id:path}/stream-input")
async def stream_input(socket: WebSocket, voice_id: str) -> None:
    """The top of this module describes the protocol."""
    await _converse(socket, voice_id, single=True)


@router.websocket("/v1/text-to-speech/{voice_id:path}/multi-stream-input")
async def multi_stream_input(socket: WebSocket, voice_id: str) -> None:
    """The top of this module describes the protocol."""
    await _converse(socket, voice_id, single=False)


async def _delivery(socket: WebSocket, query: SocketQuery) -> DeliveryOptions:
    """Raises KokoroError if the query's options are not possible."""
    output = output_formats.parse(query.output_format)
    services = get_services(socket)
    voice = await stock_voices.hold(query.voice_id, query.model_id, services)
    delivery = LenientDelivery(**request_fields(voice, query, None, output))
    await delivery.check(services.voices)
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
        handle = contexts.handle_single if single else contexts.handle
        try:
            async with contexts:
                async for message in sockets.messages(socket):
                    contexts.restart_clock()
                    await handle(sockets.parsed(message, MESSAGE))
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
        self._ends_files = delivery.format == "pcm"  # bare samples may end anywhere
        self._open: dict[str | None, ElevenLabsContext] = {}
        self._closed: list[ElevenLabsContext] = []  # not spoken to their end yet
        self._ended: list[ElevenLabsContext] = []
        self._closing = False  # whether the socket closes when all is spoken
        self.restart_clock()

    async def __aenter__(self) -> None:
        self._watching = asyncio.create_task(self._close_when_idle())

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        async with AsyncExitStack() as stopping:
            for context in (*self._open.values(), *self._closed, *self._ended):
                stopping.push_async_callback(context.stop)

    @property
    def is_speaking(self) -> bool:
        return any(context.is_speaking for context in (*self._open.values(), *self._closed))

    def restart_clock(self) -> None:
        self._idle_at = asyncio.get_running_loop().time() + self._query.inactivity_timeout

    async def _close_when_idle(self) -> None:
        """Closes the socket when the clock runs down. Messages and speech restart it."""
        timeout, loop = self._query.inactivity_timeout, asyncio.get_running_loop()
        while (left := self._idle_at - loop.time()) > 0:
            await asyncio.sleep(min(left, timeout / CHECKS))
            if self.is_speaking:
                self.restart_clock()
        with suppress(WebSocketDisconnect):
            error = BadRequest(f"nothing was received for {timeout:g} seconds (inactivity_timeout)")
            await refuse(self._socket, error)

    async def handle_single(self, message: ElevenLabsMessage) -> None:
        """Of `/stream-input`, which has one context. An empty text ends it."""
        if self._closing:
            if message.text:
                raise BadRequest("the text has ended; open another socket for more", field="text")
            return
        message.context_id = None
        if message.text:
            await self._add(message)
        if message.flush:
            await self._flush(message)
        if message.text == "":
            await self._end_all()

    async def handle(self, message: ElevenLabsMessage) -> None:
        """Of `/multi-stream-input`. Messages without a name share one context."""
        if message.text:
            if self._closing:
                raise BadRequest("the socket is closing; open another one for more", field="text")
            await self._add(message)
        if message.flush or (message.text and message.close_context):  # the last text of a turn, which is then whole
            await self._flush(message)
        if message.close_socket:
            await self._end_all()
        elif message.close_context:
            await self._close(message.context_id)

    async def _add(self, message: ElevenLabsMessage) -> None:
        """Adds the text of a message to its context, which is opened if necessary."""
        context = self._open.get(message.context_id) or await self._opened(message.context_id)
        await context.adjust(message.voice_settings)
        await context.add(message.text or "", whole=self._query.auto_mode)

    async def _flush(self, message: ElevenLabsMessage) -> None:
        if context := self._open.get(message.context_id):
            # With auto_mode each text is spoken at once: LiveKit flushes each, and once more at the end of a turn.
            ends_turn = bool(message.close_context) or not (self._query.auto_mode and message.text)
            await context.flush(ends_turn=ends_turn, ends_file=self._ends_files)

    async def _close(self, context_id: str | None) -> None:
        if context := self._open.pop(context_id, None):
            self._closed.append(context)
            await context.close()
            return
        for context in [context for context in self._closed if context.context_id == context_id]:
            if context in self._closed:  # still: dropping an earlier one takes time
                await context.drop()

    async def _end_all(self) -> None:
        """Closes the socket when all is spoken."""
        self._closing = True
        opened = list(self._open.values())
        self._open.clear()
        self._closed += opened  # all at once: the socket closes when this list is empty
        for context in opened:
            await context.end()
        await self._close_socket_at_end()

    async def _opened(self, context_id: str | None) -> ElevenLabsContext:
        await self._release_ended()
        if len(self._open) + len(self._closed) >= MAX_CONTEXTS:
            raise BadRequest(f"at most {MAX_CONTEXTS} contexts may be open at once; close one", field="context_id")
        # A client cannot tell two contexts of one name apart, so they are sent one after the other.
        before = next((each.ended for each in reversed(self._closed) if each.context_id == context_id), None)
        cumulative = self._query.sync_alignment
        context = ElevenLabsContext(self._socket, context_id, self._on_end, before, cumulative=cumulative)
        await context.start()
        self._open[context_id] = context
        await context.use(self._delivery)
        return context

    async def _on_end(self, context: ElevenLabsContext) -> None:
        self._closed.remove(context)
        self._ended.append(context)
        await self._close_socket_at_end()

    async def _close_socket_at_end(self) -> None:
        if self._closing and not self._closed:
            await sockets.close(self._socket)

    async def _release_ended(self) -> None:
        """Stops ended sessions when the next one begins: a session cannot stop itself."""
        ended, self._ended = self._ended, []
        for context in ended:
            await context.stop()
