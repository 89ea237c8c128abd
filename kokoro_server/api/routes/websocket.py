"""`/tts/ws`: speech for a voice agent whose text is still being written.

The client sends JSON messages. The server sends JSON events and, between them, binary messages of audio.

Client:

    {"type": "append", "text": "…"}   the next bit of text, as it comes: any length, cut anywhere
    {"type": "flush"}                 the text is at an end for now: speak what is left
    {"type": "cancel"}                drop everything not yet sent (the user has begun to speak)
    {"type": "close"}                 flush, and close the connection when all is spoken
    {"type": "start", "voice": …}     how to speak from here on: any of voice, language, speed, pitch, volume, seed,
                                      format, sample_rate, sample_format, bit_rate, normalize, code_blocks, code_spans,
                                      lexicon, unspeakable, as for POST /tts; the others are as at the beginning, where
                                      format is pcm. Not needed if the defaults will do.

Server:

    {"type": "ready", "voice", "format", "sample_rate", "sample_format"}   at first, and in answer to each start
    {"type": "start", "id", "text"}             a sentence begins; ids count up from 1
    {"type": "words", "id", "words": […]}       when words of it are said, in seconds from its beginning, as
                                                POST /tts/captioned tells it; the audio of the words follows
    {"type": "done", "id", "duration", "skipped"}   all of its audio has been sent; so many characters were left out, as
                                                the language cannot say them (only with "unspeakable": "skip")
    {"type": "flushed"}                         everything up to a flush has been sent
    {"type": "cancelled", "ids": […]}           in answer to cancel: these were not sent, or not to their end; no more
                                                audio of them comes
    {"type": "error", "code", "message", "field", "id"?}   with an id, that sentence failed and the next follows;
                                                without, a message was wrong and has been ignored

The audio between a sentence's `start` and `done` is one whole file of the format: for pcm simply samples, to be played
one after another. A sentence is spoken as soon as it is complete: when a flush, or text after it, shows where it ends.
One that the listener waits for in silence goes before other requests. Messages are at most 16,384 characters long.

Audio is sent five seconds ahead of what the client has read, and no more: to a client that reads at once as fast as it
is made, to one that reads as it plays at that pace. How far it has read the server learns from WebSocket pings between
the audio, which every WebSocket library answers by itself. What is appended meanwhile is kept, up to MAX_TEXT_LENGTH
characters. A client that reads nothing for STREAM_IDLE_TIMEOUT seconds is dropped. Where MAX_STREAMS streams and
WebSockets are open, the handshake is answered with status 429.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator
from pydantic_core import PydanticCustomError

from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import AgentSession, SessionListener, SessionSentence, agent_session
from kokoro_server.api.agents.text import AgentText, DeliveryOptions
from kokoro_server.errors import BadRequest, KokoroError
from kokoro_server.synthesis.captions import Timing

router = APIRouter()


class StartMessage(DeliveryOptions):
    type: Literal["start"] = "start"

    @field_validator("ssml")
    @classmethod
    def _no_ssml(cls, ssml: bool) -> bool:
        if ssml:  # each sentence would have to be a document
            raise PydanticCustomError("ssml", "text is spoken here sentence by sentence; send SSML to POST /tts/stream")
        return ssml


class Append(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["append"]
    text: str


class Command(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["flush", "cancel", "close"]


ClientMessage = StartMessage | Append | Command
MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(Annotated[ClientMessage, Field(discriminator="type")])


@router.websocket("/tts/ws")
async def websocket(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""

    async def conversation() -> None:
        events = _Events(socket)
        async with agent_session(socket.app.state, events) as session:
            await _MessageLoop(socket, session, AgentText(session, socket.app.state.services), events).run()

    await sockets.converse(socket, conversation)


class _Events(SessionListener):
    """Tells the client what is spoken."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, type: str, **fields: Any) -> None:
        await sockets.send_json(self._socket, {"type": type, **fields})

    async def send_error(self, error: KokoroError, **fields: Any) -> None:
        await self.send("error", code=error.code, message=error.message, field=error.field, **fields)

    async def on_start(self, sentence: SessionSentence) -> None:
        await self.send("start", id=sentence.id, text=sentence.text)

    async def on_words(self, sentence: SessionSentence, words: tuple[Timing, ...], _offset: float) -> None:
        await self.send("words", id=sentence.id, words=[asdict(word) for word in words])

    async def on_audio(self, data: bytes, seconds: float) -> None:
        await sockets.send_audio(self._socket, data, seconds)

    async def on_done(self, sentence: SessionSentence, seconds: float, skipped: int) -> None:
        await self.send("done", id=sentence.id, duration=round(seconds, 4), skipped=skipped)

    async def on_error(self, sentence: SessionSentence, error: KokoroError) -> None:
        await self.send_error(error, id=sentence.id)

    async def on_flushed(self) -> None:
        await self.send("flushed")

    async def on_end(self) -> None:
        await sockets.close(self._socket)

    async def on_failure(self) -> None:
        await sockets.close(self._socket, 1011, sockets.INTERNAL_ERROR)


class _MessageLoop:
    """Receives the client's messages and tells the session what to do."""

    def __init__(self, socket: WebSocket, session: AgentSession, text: AgentText, events: _Events) -> None:
        self._socket = socket
        self._session = session
        self._text = text
        self._events = events

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        await self._ready()
        async for message in sockets.messages(self._socket):
            try:
                await self._handle(sockets.parsed(message, MESSAGE, tagged=True))
            except KokoroError as error:
                await self._events.send_error(error)

    async def _handle(self, message: ClientMessage) -> None:
        if self._session.closing and message.type != "cancel":
            raise BadRequest("the connection is closing; only cancel is still of use")
        if isinstance(message, Append):
            await self._text.append(message.text)
        elif isinstance(message, StartMessage):
            await self._text.use(message)
            await self._ready()
        elif message.type == "cancel":
            await self._events.send("cancelled", ids=await self._text.cancel())
        else:
            await self._text.flush()
            if message.type == "close":
                self._session.close()

    async def _ready(self) -> None:
        manner = self._text.manner
        await self._events.send(
            "ready",
            voice=self._text.voice,
            format=manner.format,
            sample_rate=manner.sample_rate,
            sample_format=manner.sample_format,
        )
