"""`/tts/ws`: speech for a voice agent whose text is still being written.

The client sends JSON messages. The server sends JSON events and, between them, binary messages of audio.

Client:

    {"type": "append", "text": "…"}   the next bit of text, as it comes: any length, cut anywhere
    {"type": "flush"}                 the text is at an end for now: speak what is left
    {"type": "cancel"}                drop everything not yet sent (the user has begun to speak)
    {"type": "close"}                 flush, and close the connection when all is spoken
    {"type": "start", "voice": …}     how to speak from here on: any of voice, language, speed, pitch, volume, seed,
                                      format, sample_rate, sample_format, normalize, code_blocks, code_spans, lexicon,
                                      unspeakable, as for POST /tts; the others are as at the beginning, where format is
                                      pcm. Not needed if the defaults will do.

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

import asyncio
import logging
from typing import Annotated, Literal

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from kokoro_server.api.agent_session import AgentSession, error_fields
from kokoro_server.api.connections.places import StreamPlaces
from kokoro_server.api.errors import validation_message
from kokoro_server.api.schemas import TTSRequest
from kokoro_server.api.shutdown import RunningRequests
from kokoro_server.audio.encode import Format
from kokoro_server.errors import BadRequest, InvalidInput, KokoroError, TextTooLong, TooBusy
from kokoro_server.g2p import languages
from kokoro_server.parts import Parts
from kokoro_server.text import spoken
from kokoro_server.text.sentence_buffer import SentenceBuffer

log = logging.getLogger(__name__)
router = APIRouter()

MAX_MESSAGE = 16_384  # characters
APPENDED_AT_ONCE = 500  # characters: to find the sentences in them takes up to 20 ms, and hostile ones ten times that
APPENDED_ON_THE_LOOP = 200  # characters, with what is unspoken before them: as many as a sentence has


class Start(TTSRequest):
    """How to speak. The text comes in later messages."""

    type: Literal["start"] = "start"
    text: Literal[""] = ""
    phonemes: None = None
    format: Format = "pcm"


class Append(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["append"]
    text: str


class Command(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["flush", "cancel", "close"]


ClientMessage = Start | Append | Command
_MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(Annotated[ClientMessage, Field(discriminator="type")])


@router.websocket("/tts/ws")
async def websocket(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""
    places: StreamPlaces = socket.app.state.places
    try:
        places.take()
    except TooBusy as error:
        log.warning("agent refused message=%s", error.message)
        headers = {"Retry-After": f"{error.retry_after:.0f}"}
        await socket.send_denial_response(JSONResponse({"error": error_fields(error)}, error.status, headers))
        return
    try:
        await socket.accept()
        log.info("agent connected")
        await _converse(socket, socket.app.state.parts)
    except WebSocketDisconnect as end:
        log.info("agent left code=%d", end.code)
    finally:
        places.release()


async def _converse(socket: WebSocket, parts: Parts) -> None:
    session = AgentSession(socket, parts, socket.app.state.renderers)
    running: RunningRequests = socket.app.state.running
    running.speakers.add(session)
    try:
        await _MessageLoop(socket, session, parts).run()
    finally:
        running.speakers.discard(session)
        await session.stop()


class _MessageLoop:
    """Receives the client's messages and tells the session what to do."""

    def __init__(self, socket: WebSocket, session: AgentSession, parts: Parts) -> None:
        self._socket = socket
        self._session = session
        self._voices = parts.model.voices
        self._max_text = parts.settings.max_text_length
        self._buffer = SentenceBuffer()
        self._options = Start()

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        await self._ready()
        while True:
            received = await self._socket.receive()
            if received["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(received.get("code", 1006))
            try:
                await self._handle(_parse(received.get("text")))
            except KokoroError as error:
                await self._session.send_event("error", **error_fields(error))
            await asyncio.sleep(0)  # messages that are there already are received without a turn of the loop

    async def _handle(self, message: ClientMessage) -> None:
        if self._session.closing and message.type != "cancel":
            raise BadRequest("the connection is closing; only cancel is still of use")
        if isinstance(message, Append):
            self._refuse_if_full(len(message.text))
            for start in range(0, len(message.text), APPENDED_AT_ONCE):
                self._say(await self._append(message.text[start : start + APPENDED_AT_ONCE]))
                await asyncio.sleep(0)
        elif isinstance(message, Start):
            message.rendering(message.format)
            voice = await self._voices.hold(message.voice)
            language = languages.of_request(message.language, voice.language)
            await asyncio.to_thread(spoken.load, language)
            self._options = message
            self._buffer.language, self._buffer.options = language, message.reading_options()
            await self._ready()
        elif message.type == "cancel":
            self._buffer = SentenceBuffer(self._buffer.language, self._buffer.options)
            await self._session.send_event("cancelled", ids=await self._session.cancel())
        else:
            self._say(await asyncio.to_thread(self._buffer.flush))
            self._session.flush()
            if message.type == "close":
                self._session.close()

    async def _append(self, text: str) -> list[str]:
        if len(self._buffer) + len(text) <= APPENDED_ON_THE_LOOP:
            return self._buffer.append(text)
        return await asyncio.to_thread(self._buffer.append, text)

    def _say(self, sentences: list[str]) -> None:
        for sentence in sentences:
            self._session.say(self._options.model_copy(update={"text": sentence}))

    def _refuse_if_full(self, more: int) -> None:
        waiting = self._session.unsent_characters + len(self._buffer)
        if waiting + more > self._max_text:
            raise TextTooLong(
                f"{waiting} characters wait to be spoken and {more} were to be added; at most {self._max_text} may "
                "wait (MAX_TEXT_LENGTH)",
                field="text",
            )

    async def _ready(self) -> None:
        options = self._options
        await self._session.send_event(
            "ready",
            voice=self._voices.canonical(options.voice),
            format=options.format,
            sample_rate=options.sample_rate,
            sample_format=options.sample_format,
        )


def _parse(text: str | None) -> ClientMessage:
    if text is None:
        raise BadRequest("messages are JSON text, not binary")
    if len(text) > MAX_MESSAGE:
        raise TextTooLong(f"the message has {len(text)} characters; at most {MAX_MESSAGE} are allowed")
    try:
        return _MESSAGE.validate_python(from_json(text))
    except ValidationError as error:
        # The first part of a `loc` is the message's type.
        message, field = validation_message([{**item, "loc": item["loc"][1:]} for item in error.errors()])
        raise InvalidInput(message, field=field) from error
    except ValueError as error:
        raise BadRequest(f"the message is not JSON: {error}") from error
