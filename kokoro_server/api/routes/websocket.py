"""`/tts/ws`: speech for a voice agent whose text is still being written.

The client sends JSON messages. The server sends JSON events and, between them, binary messages of audio.

Client:

    {"type": "append", "text": "…"}   the next bit of text: any length, cut anywhere
    {"type": "flush"}                 the text ends for now: speak the rest
    {"type": "cancel"}                drop everything that is not sent yet (the user has begun to speak)
    {"type": "close"}                 flush, and close the connection when all is spoken
    {"type": "start", "voice": …}     options from here on: any of voice, language, speed, pitch, volume, level, seed,
                                      format, sample_rate, sample_format, bit_rate, normalize, code_blocks, code_spans,
                                      lexicon, unspeakable, trim, lead, tail, pauses, as for POST /tts, and timings
                                      and visemes, as for POST /tts/captioned. An option that is absent has its
                                      default, which for format is pcm here. Not needed if the defaults will do.

Server:

    {"type": "ready", "voice", "format", "sample_rate", "sample_format"}   at first, and in answer to each start
    {"type": "start", "id", "text"}             a sentence begins; ids count up from 1
    {"type": "words", "id", "words": […]}       its next words, with times in seconds from its beginning, as in
                                                POST /tts/captioned; the audio of the words follows. With their
                                                "phonemes" and "visemes", if `start` asked for these
    {"type": "done", "id", "duration", "skipped"}   all of its audio has been sent; `skipped` characters were left out
                                                because the language cannot say them (only with "unspeakable": "skip")
    {"type": "flushed"}                         everything up to a flush has been sent
    {"type": "cancelled", "ids": […]}           the answer to cancel: these sentences were not sent completely; no more
                                                of their audio comes
    {"type": "error", "code", "message", "field", "id"?}   with an id, that sentence failed and the next follows;
                                                without, a message was wrong and has been ignored

The audio between a sentence's `start` and `done` is one whole file of the format: for pcm simply samples, to be played
one after another. A sentence is spoken as soon as it is complete: when a flush, or text after it, shows where it ends.
A sentence that the listener awaits in silence goes before other requests. Messages have at most 16,384 characters.

The server sends audio at most five seconds ahead of the client: as fast as it is made to a client that reads at once,
at playback speed to one that reads as it plays. WebSocket pings between the audio, which every WebSocket library
answers by itself, show how far the client has read. Up to MAX_TEXT_LENGTH characters of text wait meanwhile. A client
that reads nothing for STREAM_IDLE_TIMEOUT seconds is dropped. While MAX_STREAMS streams and WebSockets are open, the
handshake is answered with status 429.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, field_validator
from pydantic_core import PydanticCustomError

from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import SessionSentence
from kokoro_server.api.agents.sockets import SocketListener
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.schemas.script import StrictRequest
from kokoro_server.api.schemas.speech import TimingFields
from kokoro_server.errors import BadRequest, KokoroError
from kokoro_server.synthesis.utterance import Segment

router = APIRouter()


class StartMessage(DeliveryOptions, TimingFields):
    type: Literal["start"] = "start"

    @field_validator("ssml")
    @classmethod
    def _no_ssml(cls, ssml: bool) -> bool:
        if ssml:  # each sentence would have to be a document
            raise PydanticCustomError("ssml", "text is spoken here sentence by sentence; send SSML to POST /tts/stream")
        return ssml


class Append(StrictRequest):
    type: Literal["append"]
    text: str


class Command(StrictRequest):
    type: Literal["flush", "cancel", "close"]


ClientMessage = StartMessage | Append | Command
MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(Annotated[ClientMessage, Field(discriminator="type")])


@router.websocket("/tts/ws")
async def websocket(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""
    await sockets.converse(socket, _Conversation(socket).run)


class _Conversation(SocketListener):
    """Handles the client's messages, and sends it events and audio."""

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        async with self.speaking(file="sentence"):
            await self._ready()
            await sockets.answer_messages(self._socket, MESSAGE, self._handle, self._send_error, tagged=True)

    async def _handle(self, message: ClientMessage) -> None:
        if self._session.closing and message.type != "cancel":
            raise BadRequest("the connection is closing; only cancel is still accepted")
        if isinstance(message, Append):
            await self._text.append(message.text)
        elif isinstance(message, StartMessage):
            await self._text.use(message)
            await self._ready()
        elif message.type == "cancel":
            await self.send("cancelled", ids=await self._text.cancel())
        else:
            await self._text.flush()
            if message.type == "close":
                self._session.close()

    async def _ready(self) -> None:
        delivery = self._text.delivery
        await self.send(
            "ready",
            voice=self._text.voice,
            format=delivery.format,
            sample_rate=delivery.sample_rate,
            sample_format=delivery.sample_format,
        )

    async def _send_error(self, error: KokoroError, **fields: int) -> None:
        await self.send("error", code=error.code, message=error.message, field=error.field, **fields)

    async def on_start(self, sentence: SessionSentence) -> None:
        await self.send("start", id=sentence.id, text=sentence.text)

    async def on_words(self, sentence: SessionSentence, segment: Segment, _offset: float) -> None:
        asked = sentence.request if isinstance(sentence.request, StartMessage) else TimingFields()
        words = [asdict(word) for word in segment.words]
        await self.send("words", id=sentence.id, words=words, **asked.sound_times(segment))

    async def on_done(self, sentence: SessionSentence, seconds: float, skipped: int) -> None:
        await self.send("done", id=sentence.id, duration=round(seconds, 4), skipped=skipped)

    async def on_error(self, sentence: SessionSentence, error: KokoroError) -> None:
        await self._send_error(error, id=sentence.id)

    async def on_flushed(self) -> None:
        await self.send("flushed")
