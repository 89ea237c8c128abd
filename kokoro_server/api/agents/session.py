"""The sentences of one voice agent, synthesized ahead and reported to its client in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from fastapi import WebSocketDisconnect

from kokoro_server.api.async_render import AsyncRenderer, Renderers
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.api.state import AppState
from kokoro_server.audio.render import Rendering, SoundStart
from kokoro_server.batching.tickets import Ticket
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError, NothingToSay, for_client
from kokoro_server.observability import tracing
from kokoro_server.observability.logs import outage
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.utterance import Segment

log = logging.getLogger(__name__)

LOOK_AHEAD = 2  # sentences that are synthesized while an earlier one is being sent
SEGMENTS_AHEAD = 4  # of a sentence, synthesized and not yet sent

Control = Literal["flushed", "close"]  # queued between sentences
File = Literal["sentence", "turn"]


class SessionListener:
    """The client's end of a session. The session calls it in order and waits for each call.

    A protocol overrides the methods that its client hears of. They raise WebSocketDisconnect or ConnectionError if the
    client has left.
    """

    kind: ClassVar[str] = "websocket"  # a label of metrics

    async def on_start(self, sentence: SessionSentence) -> None:
        """A sentence begins."""

    async def on_words(self, sentence: SessionSentence, segment: Segment, offset: float) -> None:
        """The words and phonemes of `segment` come next. Their times are in seconds from the sentence's start, which
        is at `offset` in the session.
        """

    async def on_audio(self, data: bytes, seconds: float) -> None:
        """The next bytes, which play for `seconds`."""

    async def on_done(self, sentence: SessionSentence, seconds: float, skipped: int) -> None:
        """The sentence ends. `skipped` of its characters were left out because the language cannot say them."""

    async def on_error(self, sentence: SessionSentence, error: KokoroError) -> None:
        """The sentence failed. The next one follows."""

    async def on_flushed(self) -> None:
        """Everything before a `flush` is sent."""

    async def on_end(self) -> None:
        """Everything before `close` is sent."""

    async def on_failure(self) -> None:
        """The session failed by a fault of the server and sends no more."""


class WaitingSentence(NamedTuple):
    """A sentence before its turn. Tens of thousands of short ones may wait, so each holds only what is its own."""

    id: int
    delivery: TTSRequest
    text: str
    voice: str
    low_latency: bool
    follows: bool  # another one of the same turn
    awaited_since: float | None


@dataclass(frozen=True, slots=True, eq=False)
class SessionSentence:
    id: int
    request: TTSRequest
    low_latency: bool  # takes the bypass lane
    follows: bool  # another one of the same turn
    awaited_since: float | None  # when it was said, if the listener then waited for it in silence
    # Its segments as they are synthesized; at the end None, or the error of a sentence that failed.
    segments: asyncio.Queue[Segment | KokoroError | None] = field(default_factory=lambda: asyncio.Queue(SEGMENTS_AHEAD))

    @property
    def text(self) -> str:
        return self.request.text or ""


class AgentSession:
    """Takes sentences, synthesizes a few ahead, and reports them to the listener one after another.

    The audio is one file for each sentence, or one from flush to flush (`file="turn"`) without gaps between sentences.
    The session starts when it is created. `stop` must be called.
    """

    def __init__(
        self, listener: SessionListener, services: Services, renderers: Renderers, file: File = "sentence"
    ) -> None:
        self._listener = listener
        self._services = services
        self._renderers = renderers
        self._file: File = file
        self._last_id = 0
        self.closing = False
        self._start()

    def _start(self) -> None:
        self._pending: asyncio.Queue[WaitingSentence | Control] = asyncio.Queue()
        self._unsent: dict[int, int] = {}  # the characters of each sentence
        self._unsent_characters = 0
        self._synthesizing: dict[int, asyncio.Task[None]] = {}
        self._playback_end = 0.0  # when a client that plays at once will have played all audio sent so far
        self._samples = 0  # sent so far
        self._in_turn = False  # whether a sentence was queued after the last flush
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Abandons everything, including rows in the batch queue."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    @property
    def unsent_characters(self) -> int:
        """Characters of the sentences that are not sent yet; 0 for a session that failed."""
        return 0 if self._task.done() else self._unsent_characters

    def say(self, delivery: TTSRequest, text: str, voice: str) -> None:
        """Queues a sentence. It takes the bypass lane if the listener waits for it in silence."""
        self._last_id += 1
        now = self._services.queue.now()
        awaited_since = now if not self._unsent and now >= self._playback_end else None
        low_latency = delivery.optimize_for_latency or awaited_since is not None
        self._unsent[self._last_id] = len(text)
        self._unsent_characters += len(text)
        self._pending.put_nowait(
            WaitingSentence(self._last_id, delivery, text, voice, low_latency, self._in_turn, awaited_since)
        )
        self._in_turn = True

    def flush(self) -> None:
        """Calls `on_flushed` after the sentences queued so far. With `file="turn"` the file ends there."""
        self._pending.put_nowait("flushed")
        self._in_turn = False

    def close(self) -> None:
        """Calls `on_end` after the sentences queued so far."""
        self.closing = True
        self._pending.put_nowait("close")

    async def cancel(self) -> list[int]:
        """Drops everything that is not sent yet. Returns the ids of the sentences that were not sent completely."""
        await self.stop()
        dropped = list(self._unsent)
        self._start()
        if self.closing:
            self.close()
        return dropped

    async def _run(self) -> None:
        try:
            await self._send_all()
        except* (WebSocketDisconnect, ConnectionError):
            pass  # the coroutine that receives from the client notices it too
        except* Exception:
            log.exception("the session of an agent failed")
            await self._listener.on_failure()

    async def _send_all(self) -> None:
        ahead: asyncio.Queue[SessionSentence | Control] = asyncio.Queue(LOOK_AHEAD)
        async with aclosing(_Files(self._renderers)) as files, asyncio.TaskGroup() as group:
            group.create_task(self._synthesize_ahead(group, ahead))
            while (item := await ahead.get()) != "close":
                if isinstance(item, SessionSentence):
                    await self._send(item, files)
                else:
                    await self._end_file(files)
                    await self._listener.on_flushed()
            await self._end_file(files)
        await self._listener.on_end()

    async def _synthesize_ahead(
        self, group: asyncio.TaskGroup, ahead: asyncio.Queue[SessionSentence | Control]
    ) -> None:
        item: WaitingSentence | Control | None = None
        while item != "close":
            item = await self._pending.get()
            if isinstance(item, WaitingSentence):
                request = item.delivery.model_copy(update={"text": item.text, "voice": item.voice})
                sentence = SessionSentence(item.id, request, item.low_latency, item.follows, item.awaited_since)
                self._synthesizing[item.id] = group.create_task(self._synthesize(sentence))
                await ahead.put(sentence)
            else:
                await ahead.put(item)

    async def _synthesize(self, sentence: SessionSentence) -> None:
        with tracing.step("sentence", {"kokoro.sentence": sentence.id}) as span:
            end = await self._synthesize_segments(sentence)
            if span is not None and end is not None:
                span.fail(end.code)
            await sentence.segments.put(end)

    async def _synthesize_segments(self, sentence: SessionSentence) -> KokoroError | None:
        """Returns the error of a sentence that failed."""
        try:
            speech = sentence.request.speech()
            # A bare "—" of a language model is silent.
            reading = replace(speech.reading, name_signs=False)
            speech = replace(speech, follows=sentence.follows, reading=reading, may_be_silent=False)
            segments = self._services.synthesizer.segments(speech, self._ticket(sentence))
            async with aclosing(segments):
                async for segment in segments:
                    await sentence.segments.put(segment)
        except NothingToSay:
            pass  # a language model may write a bare "—" or an emoji: not an error
        except KokoroError as error:
            facts = sentence.id, error.code, error.message
            log.warning("sentence failed id=%d code=%s message=%s", *facts, extra=outage(error))
            return for_client(error)
        except Exception as error:
            log.exception("sentence failed id=%d", sentence.id)
            return for_client(error)
        return None

    def _ticket(self, sentence: SessionSentence) -> Ticket:
        queue = self._services.queue
        if sentence.low_latency:
            return queue.ticket(bypass=self._services.bypass, urgent=self._services.urgent)
        # Like a later piece of a long text: once speech has begun, a longer wait is better than a refusal.
        return replace(queue.ticket(), first_deadline=queue.later_deadline())

    async def _send(self, sentence: SessionSentence, files: _Files) -> None:
        now = self._services.queue.now
        ready = now()
        await self._listener.on_start(sentence)
        held = now() - ready  # by the client, which may listen to another context first
        begin = self._samples
        try:
            rendering = sentence.request.rendering()
            if files.rendering not in (None, rendering):
                await self._end_file(files)
            awaited_since = None if sentence.awaited_since is None else sentence.awaited_since + held
            skipped = await self._send_segments(sentence, rendering, await files.open(rendering), awaited_since)
        except KokoroError as error:
            await self._listener.on_error(sentence, error)
        else:
            seconds = (self._samples - begin) / SAMPLE_RATE
            self._playback_end = max(self._playback_end, self._services.queue.now()) + seconds
            await self._listener.on_done(sentence, seconds, skipped)
        finally:
            self._synthesizing.pop(sentence.id).cancel()  # still running if the sentence was not sent completely
            if self._file == "sentence":
                await files.aclose()
        self._unsent_characters -= self._unsent.pop(sentence.id)

    async def _send_segments(
        self, sentence: SessionSentence, rendering: Rendering, renderer: AsyncRenderer, awaited_since: float | None
    ) -> int:
        """Returns how many characters were skipped. Raises the error of a sentence that failed."""
        skipped, begin, unsent = 0, self._samples, 0
        start: SoundStart | None = None
        while isinstance(segment := await sentence.segments.get(), Segment):
            if awaited_since is not None and start is None:
                start = rendering.start(segment.sound, streamed=True)
            self._samples += len(segment.audio)
            unsent += len(segment.audio)
            skipped += segment.skipped
            if segment.words:
                await self._listener.on_words(sentence, segment, begin / SAMPLE_RATE)
            ends_file = segment.last and self._file == "sentence"
            if data := await renderer.write(segment.audio, pcm16=segment.pcm16, last=ends_file):
                if awaited_since is not None and start is not None:
                    self._observe_start(self._services.queue.now() - awaited_since, start)
                    awaited_since = None
                with tracing.step("send"):
                    await self._listener.on_audio(data, unsent / SAMPLE_RATE)
                unsent = 0
        if segment is not None:
            raise segment
        return skipped

    def _observe_start(self, seconds: float, start: SoundStart) -> None:
        """The first bytes are about to be sent of a sentence for which the listener waits."""
        metrics = self._services.metrics
        metrics.first_audio.observe(seconds)
        if start.audible is not None:
            metrics.first_audible.labels(self._listener.kind).observe(seconds + start.audible)

    async def _end_file(self, files: _Files) -> None:
        if data := await files.finish():
            await self._listener.on_audio(data, 0.0)


class _Files:
    """The file that is being written, if any."""

    def __init__(self, renderers: Renderers) -> None:
        self._renderers = renderers
        self._renderer: AsyncRenderer | None = None
        self.rendering: Rendering | None = None

    async def open(self, rendering: Rendering) -> AsyncRenderer:
        if self._renderer is None:
            self._renderer = await self._renderers.open(rendering)
            self.rendering = rendering
        return self._renderer

    async def finish(self) -> bytes:
        """The last bytes of the file."""
        data = await self._renderer.finish() if self._renderer else b""
        await self.aclose()
        return data

    async def aclose(self) -> None:
        renderer, self._renderer, self.rendering = self._renderer, None, None
        if renderer is not None:
            await renderer.close()


@asynccontextmanager
async def agent_session(
    state: AppState, listener: SessionListener, file: File = "sentence"
) -> AsyncIterator[AgentSession]:
    """A session that the server waits for when it stops."""
    session = AgentSession(listener, state.services, state.renderers, file)
    state.running.sessions.add(session)
    try:
        yield session
    finally:
        state.running.sessions.discard(session)
        await session.stop()
