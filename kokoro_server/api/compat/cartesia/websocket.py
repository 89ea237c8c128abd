"""The WebSocket `/tts/websocket`: Cartesia's protocol for voice agents.

Each message belongs to a context, the text of one turn. It has the next transcript and how to speak it; `continue`
false, or absent, ends the context. `flush` ends a part, and `flush_done` answers it. The server sends `chunk` with
samples, with `add_timestamps` the `timestamps` of the words that follow, in seconds from the context's start, and
`done`; or `error`, which ends the context too. `cancel` drops a context.

A sentence is spoken as soon as it is complete, or when no text has come for `max_buffer_delay_ms`; with 0, every
transcript is spoken at once. The options are those of the last transcript that was not empty.
"""

from __future__ import annotations

from fastapi import APIRouter, WebSocket
from pydantic import TypeAdapter

from kokoro_server.api.agents import sockets
from kokoro_server.api.compat.cartesia import events
from kokoro_server.api.compat.cartesia.context import CartesiaContext
from kokoro_server.api.compat.cartesia.schemas import SocketCommand
from kokoro_server.api.errors import validated
from kokoro_server.errors import KokoroError, TooManyAtOnce
from kokoro_server.runtime.json import JsonObject

router = APIRouter()

MAX_CONTEXTS = 20  # of a connection
MESSAGE = TypeAdapter(JsonObject)


@router.websocket("/tts/websocket")
async def speech_socket(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""
    await sockets.converse(socket, _Contexts(socket).run)


class _Contexts:
    """Receives the client's messages and passes each to its context."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._open: dict[str, CartesiaContext] = {}  # the oldest first

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        try:
            async for text in sockets.messages(self._socket):
                await self._receive(text)
        finally:
            for name in list(self._open):
                await self._drop(name)

    async def _receive(self, text: str | None) -> None:
        context_id: str | None = None
        try:
            message = sockets.parsed(text, MESSAGE)
            found = message.get("context_id")
            context_id = found if isinstance(found, str) else None
            command = validated(SocketCommand.model_validate, message)
            if command.cancel:
                await self._drop(command.context_id)
            else:
                context = await self._context(command.context_id)
                await context.take(command, message)
        except KokoroError as error:
            failed = self._open.get(context_id or "")
            if failed and not failed.closing:  # else the message came too late, and the context speaks on
                await self._drop(context_id or "")
            await sockets.send_json(self._socket, events.error(context_id, error))

    async def _context(self, name: str) -> CartesiaContext:
        for ended in [ended for ended, context in self._open.items() if context.ended]:
            await self._drop(ended)
        if name not in self._open:
            await self._make_room()
            self._open[name] = context = CartesiaContext(self._socket, name)
            await context.start()
        return self._open[name]

    async def _make_room(self) -> None:
        """Drops an idle context if there are too many: an interrupted client may neither end nor cancel its context."""
        if len(self._open) < MAX_CONTEXTS:
            return
        idle = next((name for name, context in self._open.items() if context.idle), None)
        if idle is None:
            raise TooManyAtOnce(
                f"{MAX_CONTEXTS} contexts of this connection are speaking, the most allowed; end or cancel one",
                field="context_id",
            )
        await self._drop(idle)

    async def _drop(self, name: str) -> None:
        if context := self._open.pop(name, None):
            await context.stop()
