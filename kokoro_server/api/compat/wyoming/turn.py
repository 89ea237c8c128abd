"""The audio that answers one text."""

from __future__ import annotations

import asyncio

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import Eventable

from kokoro_server.api.agents.session import SessionListener, SessionSentence
from kokoro_server.api.agents.sockets import audio_parts
from kokoro_server.api.compat.wyoming.wire import EventWriter
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError, for_client
from kokoro_server.observability import tracing

WIDTH = 2  # bytes of a sample
CHANNELS = 1
MOMENT_S = 0.3
MOMENT_OF_SILENCE = bytes(round(MOMENT_S * SAMPLE_RATE) * WIDTH * CHANNELS)


class SpokenReply(SessionListener):
    """Sends one `audio-start`, audio as it is made, and one `audio-stop`.

    A reply that fails has no `audio-stop`: a part must not pass for the whole.
    """

    kind = "wyoming"

    def __init__(self, writer: EventWriter) -> None:
        self.has_all_text = False
        self._writer = writer
        self._trace = tracing.current()  # of the request
        self._started = False
        self._over = asyncio.Event()
        self._error: Exception | None = None

    async def wait(self) -> None:
        """Returns at the end of the audio. Raises KokoroError if it failed, ConnectionError if the client has left."""
        await self._over.wait()
        if self._error:
            raise self._error

    def fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._over.set()

    async def on_audio(self, data: bytes, seconds: float) -> None:
        if not self._started and self._trace is not None:
            self._trace.event("first_audio")
        await self._start()
        for part, _ in audio_parts(data, seconds):
            await self._send(AudioChunk(rate=SAMPLE_RATE, width=WIDTH, channels=CHANNELS, audio=part))

    async def on_error(self, _sentence: SessionSentence, error: KokoroError) -> None:
        self.fail(error)

    async def on_flushed(self) -> None:
        if not self._started:  # there was nothing to say
            await self.on_audio(MOMENT_OF_SILENCE, MOMENT_S)
        await self._send(AudioStop())
        self._over.set()

    async def on_failure(self) -> None:
        self.fail(for_client(Exception()))

    async def _start(self) -> None:
        if not self._started:
            self._started = True
            await self._send(AudioStart(rate=SAMPLE_RATE, width=WIDTH, channels=CHANNELS))

    async def _send(self, message: Eventable) -> None:
        if self._over.is_set():  # the reply failed, and the session is not stopped yet
            return
        try:
            await self._writer.send(message)
        except ConnectionError as error:
            self.fail(error)
            raise
