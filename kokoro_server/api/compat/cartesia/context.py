"""One context of a Cartesia WebSocket: the text of a turn, and its events."""

from __future__ import annotations

import asyncio
from base64 import b64encode

from fastapi import WebSocket

from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import SessionSentence
from kokoro_server.api.agents.sockets import SocketListener
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.cartesia import events
from kokoro_server.api.compat.cartesia.events import WrittenWords
from kokoro_server.api.compat.cartesia.schemas import DEFAULT_BUFFER_DELAY, Generation, SocketCommand
from kokoro_server.api.errors import validated
from kokoro_server.api.state import get_services
from kokoro_server.errors import BadRequest, KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.utterance import Segment


class ContextFailed(ConnectionError):
    """Ends the session: the client does not listen after an error."""


class CartesiaContext(SocketListener):
    kind = "cartesia"

    def __init__(self, socket: WebSocket, name: str) -> None:
        super().__init__(socket)
        self._name = name
        self._turn = asyncio.Lock()  # held while a message or the timer changes the text
        self._timer: asyncio.TimerHandle | None = None
        self._rest: asyncio.Task[None] | None = None
        self._delivery: DeliveryOptions | None = None
        self._timed = self._phonemes_timed = False
        self._flushes = 0  # that are finished
        self._words = WrittenWords("")
        self.ended = False  # and its last event is sent: the context can be stopped

    async def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._rest:
            self._rest.cancel()
        await super().stop()

    @property
    def closing(self) -> bool:
        """Whether its last message has come."""
        return self._session.closing

    @property
    def idle(self) -> bool:
        """Whether all of its text is spoken."""
        return not self._text.waiting

    async def take(self, command: SocketCommand, message: JsonObject) -> None:
        """Handles a message. Raises KokoroError if it is wrong."""
        if self.closing:
            raise BadRequest(f"context {self._name!r} has ended with its last message; use another context_id")
        if self._timer:
            self._timer.cancel()
        async with self._turn:
            if command.transcript and not command.transcript.isspace():
                await self._use(validated(Generation.model_validate, message))
            await self._text.append_message(command.transcript or "")
            if not command.continue_:
                await self._text.end_sentence()
                self._session.close()
            elif command.flush:
                await self._text.flush()
            elif command.max_buffer_delay_ms == 0:
                await self._text.end_sentence()
        if command.continue_:
            delay = DEFAULT_BUFFER_DELAY if command.max_buffer_delay_ms is None else command.max_buffer_delay_ms
            self._timer = asyncio.get_running_loop().call_later(delay / 1000, self._speak_rest)

    async def _use(self, generation: Generation) -> None:
        self._timed = bool(generation.add_timestamps)
        self._phonemes_timed = bool(generation.add_phoneme_timestamps)
        delivery = await generation.delivery(get_services(self._socket))
        if delivery != self._delivery:
            await self._text.end_sentence()  # earlier text keeps its options
            await self._text.use(delivery)
            self._delivery = delivery

    def _speak_rest(self) -> None:
        async def speak() -> None:
            async with self._turn:
                if not self.closing:
                    await self._text.end_sentence()

        self._rest = asyncio.create_task(speak())

    async def _send(self, event: JsonObject, seconds: float = 0.0) -> None:
        await sockets.send_json(self._socket, event, seconds)

    async def on_start(self, sentence: SessionSentence) -> None:
        self._words = WrittenWords(sentence.text)

    async def on_words(self, _sentence: SessionSentence, segment: Segment, offset: float) -> None:
        flush = self._flushes + 1
        if self._timed:
            timed = self._words.timed(segment.words, offset)
            await self._send(events.timestamps(self._name, timed, flush_id=flush))
        if self._phonemes_timed:
            await self._send(events.phoneme_timestamps(self._name, segment.phonemes, offset, flush_id=flush))

    async def on_audio(self, data: bytes, seconds: float) -> None:
        for part, part_seconds in sockets.audio_parts(data, seconds):
            event = events.chunk(self._name, b64encode(part).decode(), flush_id=self._flushes + 1)
            await self._send(event, part_seconds)

    async def on_error(self, _sentence: SessionSentence, error: KokoroError) -> None:
        await self._send(events.error(self._name, error))
        self.ended = True
        raise ContextFailed

    async def on_flushed(self) -> None:
        self._flushes += 1
        await self._send(events.flush_done(self._name, self._flushes))

    async def on_end(self) -> None:
        await self._send(events.done(self._name))
        self.ended = True

    async def on_failure(self) -> None:
        await self._send(events.error(self._name, KokoroError(sockets.INTERNAL_ERROR)))
        self.ended = True
