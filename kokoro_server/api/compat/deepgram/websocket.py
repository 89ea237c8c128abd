"""The WebSocket `/v1/speak`: speech for a voice agent whose text is still being written, in Deepgram's words.

The client sends `Speak` with a text, `Flush`, `Clear` and `Close`. The server sends `Metadata`, then audio in binary
messages; `Flushed` when all is sent up to a Flush; `Cleared` when all that was not yet sent is dropped, Flushes too;
`Error` for a sentence that failed or a message that is wrong, and `Warning` for one that is not known. A sentence
is spoken as soon as it is complete: when text after it shows where it ends, or a Speak of several words ends with it.
`Close` speaks what is left, then closes the connection.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, WebSocket
from pydantic import TypeAdapter

from kokoro_server import __version__
from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import AgentSession, SessionListener, SessionSentence, agent_session
from kokoro_server.api.agents.text import AgentText, DeliveryOptions
from kokoro_server.api.compat.deepgram.routes import model_uuid
from kokoro_server.api.compat.deepgram.schemas import DeepgramMessage, SocketParameters
from kokoro_server.errors import BadRequest, InvalidInput, KokoroError
from kokoro_server.observability.logs import request_id
from kokoro_server.synthesis.services import Services

router = APIRouter()

MESSAGE = TypeAdapter(DeepgramMessage)
PARAMETERS = TypeAdapter(SocketParameters)
HARMLESS = ("KeepAlive",)  # of Deepgram's other WebSockets, which clients send here too


@router.websocket("/v1/speak")
async def speak_socket(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""
    services: Services = socket.app.state.services
    try:
        manner = await sockets.validated(dict(socket.query_params), PARAMETERS).manner(services.voices)
        await manner.check(services.voices)
    except KokoroError as error:
        await sockets.refuse(socket, error)
        return

    async def conversation() -> None:
        answers = _Answers(socket)
        async with agent_session(socket.app.state, answers, file="turn") as session:
            await _MessageLoop(socket, session, AgentText(session, services), answers).run(manner)

    await sockets.converse(socket, conversation, {"dg-request-id": request_id.get()})


class _Answers(SessionListener):
    """Tells the client what is spoken."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._sequence = 0

    async def send(self, type: str, **fields: Any) -> None:
        await sockets.send_json(self._socket, {"type": type, **fields})

    async def send_numbered(self, type: str) -> None:
        await self.send(type, sequence_id=self._sequence)
        self._sequence += 1

    async def send_error(self, error: KokoroError) -> None:
        await self.send("Error", description=error.message, code=error.code.upper())

    async def send_warning(self, code: str, text: str) -> None:
        await self.send("Warning", description=text, code=code, warn_code=code, warn_msg=text)

    async def on_audio(self, data: bytes, seconds: float) -> None:
        await sockets.send_audio(self._socket, data, seconds)

    async def on_done(self, _sentence: SessionSentence, _seconds: float, skipped: int) -> None:
        if skipped:
            await self.send_warning("SKIPPED", f"{skipped} characters were left out, as the language cannot say them")

    async def on_error(self, _sentence: SessionSentence, error: KokoroError) -> None:
        await self.send_error(error)

    async def on_flushed(self) -> None:
        await self.send_numbered("Flushed")

    async def on_end(self) -> None:
        await sockets.close(self._socket)

    async def on_failure(self) -> None:
        await sockets.close(self._socket, 1011, sockets.INTERNAL_ERROR)


class _MessageLoop:
    """Receives the client's messages and tells the session what to do."""

    def __init__(self, socket: WebSocket, session: AgentSession, text: AgentText, answers: _Answers) -> None:
        self._socket = socket
        self._session = session
        self._text = text
        self._answers = answers

    async def run(self, manner: DeliveryOptions) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        await self._text.use(manner)
        await self._answers.send(
            "Metadata",
            request_id=request_id.get(),
            model_name=self._text.voice,
            model_version=__version__,
            model_uuid=model_uuid(self._text.voice),
        )
        async for message in sockets.messages(self._socket):
            try:
                await self._handle(sockets.parsed(message, MESSAGE))
            except KokoroError as error:
                await self._answers.send_error(error)

    async def _handle(self, message: DeepgramMessage) -> None:
        if message.type in HARMLESS:
            return
        if self._session.closing and message.type != "Clear":
            raise BadRequest("the connection is closing; only Clear is still of use")
        if message.type == "Speak":
            if message.text is None:
                raise InvalidInput("text: Field required", field="text")
            await self._text.append_message(message.text)
        elif message.type == "Flush":
            await self._text.flush()
        elif message.type == "Clear":
            await self._text.cancel()
            await self._answers.send_numbered("Cleared")
        elif message.type == "Close":
            await self._text.end_sentence()
            self._session.close()
        else:
            text = f"ignored a message of type {message.type!r}; there are Speak, Flush, Clear and Close"
            await self._answers.send_warning("UNKNOWN_TYPE", text)
