"""One context of a WebSocket: its text as it comes, and its speech in messages."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace

from fastapi import WebSocket

from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import SessionSentence
from kokoro_server.api.agents.sockets import SocketListener
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.elevenlabs.alignment import Alignment, Characters
from kokoro_server.api.compat.elevenlabs.schemas import VoiceSettings
from kokoro_server.errors import KokoroError, UnknownVoice
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.utterance import Segment

POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
MAX_REASON = 100  # characters: a close frame holds 123 bytes


async def refuse(socket: WebSocket, error: KokoroError, context_id: str | None = None) -> None:
    """Sends an error and closes the socket, as ElevenLabs does."""
    code = POLICY_VIOLATION if error.status < 500 else INTERNAL_ERROR
    name = "voice_not_found" if isinstance(error, UnknownVoice) else error.code
    message = {"message": error.message, "error": name, "code": code}
    await sockets.send_json(socket, message | _named(context_id))
    await sockets.close(socket, code, error.message.encode("ascii", "replace").decode()[:MAX_REASON])


def _named(context_id: str | None) -> dict[str, str]:
    return {} if context_id is None else {"contextId": context_id}


class ElevenLabsContext(SocketListener):
    """A text that is spoken as it comes, with the times of its characters."""

    kind = "elevenlabs"

    def __init__(
        self,
        socket: WebSocket,
        context_id: str | None,
        on_end: Callable[[ElevenLabsContext], Awaitable[None]],
        before: asyncio.Event | None,
        *,
        cumulative: bool,
    ) -> None:
        """`before`: nothing is sent until it is set. `cumulative`: times count from the start of the context, not of
        each message.
        """
        super().__init__(socket)
        self.context_id = context_id
        self.ended = asyncio.Event()
        self._after_end = on_end
        self._before = before
        self._cumulative = cumulative
        self._sentence_place = 0  # in the text
        self._sentence_begin = 0.0  # seconds
        self._sent = 0.0  # seconds of audio
        self._characters = Characters()
        self._is_whole = True  # the turn: no text came after the last flush

    @property
    def is_speaking(self) -> bool:
        return self._session.unsent_characters > 0

    async def adjust(self, settings: VoiceSettings | None) -> None:
        """Applies the settings of a message."""
        delivery = self._text.delivery
        if settings and settings.speed not in (None, delivery.speed):
            await self._text.use(delivery.model_copy(update={"speed": settings.speed}))

    async def add(self, text: str, *, whole: bool) -> None:
        """`whole`: the text ends with a complete sentence, which can be spoken now."""
        if text.isspace() and not self._characters.pending:
            text = ""  # only opens the context
        self._characters.append(text)
        if whole:
            self._characters.end_word()
        if text:
            self._is_whole = False
            await self._text.append(text)
        if whole:
            await self._text.end_sentence()

    async def flush(self, *, ends_turn: bool, ends_file: bool) -> None:
        """Speaks all of the text. With `ends_file`, the encoder keeps no bytes back for later audio."""
        self._characters.end_word()
        self._is_whole = self._is_whole or ends_turn
        if ends_file:
            await self._text.flush()
        else:
            await self._text.end_sentence()

    async def end(self) -> None:
        """Speaks all of the text, then sends the end."""
        await self._text.end_sentence()
        self._session.close()

    async def close(self) -> None:
        """Ends a complete turn. Inside a turn the client has been interrupted: the rest is dropped."""
        if self._is_whole:
            await self.end()
        else:
            await self.drop()
            self._session.close()

    async def drop(self) -> None:
        """Drops everything that is not sent yet."""
        await self._text.cancel()

    async def use(self, delivery: DeliveryOptions) -> None:
        await self._text.use(delivery)

    async def on_start(self, sentence: SessionSentence) -> None:
        await self._wait()
        self._sentence_place = self._characters.begin_sentence(sentence.text)

    async def on_words(self, _sentence: SessionSentence, segment: Segment, offset: float) -> None:
        place = self._sentence_place
        self._characters.say(
            replace(
                word,
                start=word.start + offset,
                end=word.end + offset,
                char_start=word.char_start + place,
                char_end=word.char_end + place,
            )
            for word in segment.words
        )

    async def on_audio(self, data: bytes, seconds: float) -> None:
        self._sent += seconds
        alignment = self._characters.align_words(self._sent)
        for part, part_seconds in sockets.audio_parts(data, seconds):
            await self._send(part, alignment, part_seconds)
            alignment = None

    async def on_done(self, _sentence: SessionSentence, seconds: float, _skipped: int) -> None:
        self._sentence_begin += seconds
        self._sent = self._sentence_begin
        if alignment := self._characters.align_sentence(self._sent):
            await self._send(b"", alignment)
        self._characters.forget()

    async def on_error(self, _sentence: SessionSentence, error: KokoroError) -> None:
        await refuse(self._socket, error, self.context_id)

    async def on_end(self) -> None:
        await self._wait()
        await sockets.send_json(self._socket, {"isFinal": True} | _named(self.context_id))
        self.ended.set()
        await self._after_end(self)

    async def on_failure(self) -> None:
        await sockets.close(self._socket, INTERNAL_ERROR, sockets.INTERNAL_ERROR)

    async def _wait(self) -> None:
        if self._before:
            await self._before.wait()

    async def _send(self, audio: bytes, alignment: Alignment | None, seconds: float = 0.0) -> None:
        aligned = alignment.milliseconds(cumulative=self._cumulative) if alignment else None
        message: JsonObject = {
            "audio": b64encode(audio).decode(),
            "alignment": aligned,
            "normalizedAlignment": aligned,  # times refer to the characters that were written
        }
        await sockets.send_json(self._socket, message | _named(self.context_id), seconds)
