"""The WebSocket `/v1/speak`: Deepgram's protocol for a voice agent whose text is still being written.

The client sends `Speak` with a text, `Flush`, `Clear` and `Close`. The server sends `Metadata`, then audio in binary
messages; `Flushed` when everything up to a Flush is sent; `Cleared` when everything unsent, Flushes too, is dropped;
`Error` for a sentence that failed or a message that is wrong, and `Warning` for a message of unknown type. A sentence
is spoken as soon as it is complete: when text after it shows where it ends, or a Speak of several words ends with it.
`Close` speaks the rest, then closes the connection.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, WebSocket
from pydantic import TypeAdapter

from kokoro_server import __version__
from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import SessionSentence
from kokoro_server.api.agents.sockets import SocketListener
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.deepgram.routes import model_uuid
from kokoro_server.api.compat.deepgram.schemas import DeepgramMessage, SocketParameters
from kokoro_server.api.errors import validated
from kokoro_server.api.state import get_services
from kokoro_server.errors import BadRequest, InvalidInput, KokoroError
from kokoro_server.observability.logs import request_id

router = APIRouter()

MESSAGE = TypeAdapter(DeepgramMessage)
HARMLESS = ("KeepAlive",)  # of Deepgram's other WebSockets, which clients send here too


@router.websocket("/v1/speak")
async def speak_socket(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""
    await open_conversation(socket, SocketParameters, _Conversation)


async def open_conversation(
    socket: WebSocket,
    parameters: type[SocketParameters],
    listener: Callable[[WebSocket, DeliveryOptions], DeepgramListener],
) -> None:
    """Converses as the query's parameters say, or refuses the handshake."""
    services = get_services(socket)
    try:
        delivery = await validated(parameters.model_validate, dict(socket.query_params)).delivery(services)
        await delivery.check(services.voices)
    except KokoroError as error:
        await sockets.refuse(socket, error)
        return
    await sockets.converse(socket, listener(socket, delivery).run, {"dg-request-id": request_id.get()})


class DeepgramListener(SocketListener):
    """Sends errors and warnings as Deepgram does."""

    kind = "deepgram"

    def __init__(self, socket: WebSocket, delivery: DeliveryOptions) -> None:
        super().__init__(socket)
        self._delivery = delivery

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        raise NotImplementedError

    async def _send_error(self, error: KokoroError) -> None:
        await self.send("Error", description=error.message, code=error.code.upper())

    async def _send_warning(self, code: str, text: str) -> None:
        await self.send("Warning", description=text, code=code, warn_code=code, warn_msg=text)

    async def on_done(self, _sentence: SessionSentence, _seconds: float, skipped: int) -> None:
        if skipped:
            text = f"{skipped} characters were left out because the language cannot say them"
            await self._send_warning("SKIPPED", text)

    async def on_error(self, _sentence: SessionSentence, error: KokoroError) -> None:
        await self._send_error(error)


class _Conversation(DeepgramListener):
    """Handles the client's messages, and sends it answers and audio."""

    def __init__(self, socket: WebSocket, delivery: DeliveryOptions) -> None:
        super().__init__(socket, delivery)
        self._sequence = 0

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        async with self.speaking():
            await self._text.use(self._delivery)
            await self.send(
                "Metadata",
                request_id=request_id.get(),
                model_name=self._text.voice,
                model_version=__version__,
                model_uuid=model_uuid(self._text.voice),
            )
            await sockets.answer_messages(self._socket, MESSAGE, self._handle, self._send_error)

    async def _handle(self, message: DeepgramMessage) -> None:
        if message.type in HARMLESS:
            return
        if self._session.closing and message.type != "Clear":
            raise BadRequest("the connection is closing; only Clear is still accepted")
        if message.type == "Speak":
            if message.text is None:
                raise InvalidInput("text: is required", field="text")
            await self._text.append_message(message.text)
        elif message.type == "Flush":
            await self._text.flush()
        elif message.type == "Clear":
            await self._text.cancel()
            await self._send_numbered("Cleared")
        elif message.type == "Close":
            await self._text.end_sentence()
            self._session.close()
        else:
            text = f"ignored a message of type {message.type!r}; known types are Speak, Flush, Clear and Close"
            await self._send_warning("UNKNOWN_TYPE", text)

    async def _send_numbered(self, type: str) -> None:
        await self.send(type, sequence_id=self._sequence)
        self._sequence += 1

    async def on_flushed(self) -> None:
        await self._send_numbered("Flushed")
