"""The sending side of `/tts/ws`: the sentences of one voice agent, spoken in order over its WebSocket."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from fastapi import WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from kokoro_server.api.async_render import AsyncRenderer, Renderers
from kokoro_server.api.schemas import TTSRequest
from kokoro_server.batching.speech_queue import Job
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError, NothingToSay
from kokoro_server.parts import Parts
from kokoro_server.synthesis import Segment
from kokoro_server.text.pieces import Cutting

log = logging.getLogger(__name__)

LOOK_AHEAD = 2  # sentences that are synthesized while an earlier one is being sent
SEGMENTS_AHEAD = 4  # of a sentence, synthesized and not yet sent
MAX_AUDIO_MESSAGE = 16_384  # bytes: a third of a second of 16-bit samples at 24 kHz
INTERNAL_ERROR = "something went wrong on the server; its log has the details"

Event = dict[str, Any]
Control = Literal["flushed", "close"]  # queued between sentences


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    id: int
    request: TTSRequest
    low_latency: bool  # takes the bypass lane
    # Its segments as they are synthesized; at the end None, or the error that it failed with.
    segments: asyncio.Queue[Segment | KokoroError | None] = field(default_factory=lambda: asyncio.Queue(SEGMENTS_AHEAD))

    @property
    def text(self) -> str:
        return self.request.text or ""


class AgentSession:
    """Takes sentences, synthesizes a few of them ahead, and sends events and audio, one sentence after another.

    It starts when it is created, and `stop` must be called.
    """

    def __init__(self, socket: WebSocket, parts: Parts, renderers: Renderers) -> None:
        self._socket = socket
        self._parts = parts
        self._renderers = renderers
        self._last_id = 0
        self.closing = False
        self._start()

    def _start(self) -> None:
        self._pending: asyncio.Queue[Sentence | Control] = asyncio.Queue()
        self._unsent: dict[int, Sentence] = {}
        self._synthesizing: dict[int, asyncio.Task[None]] = {}
        self._playback_end = 0.0  # when a client that plays at once will have played all that it was sent
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Abandon everything, including what is in the batch queue."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    @property
    def unsent_characters(self) -> int:
        """Characters of the sentences that are not yet sent."""
        return sum(len(sentence.text) for sentence in self._unsent.values())

    def say(self, request: TTSRequest) -> None:
        """Queue a sentence. It takes the bypass lane if the listener waits for it in silence."""
        self._last_id += 1
        silence = not self._unsent and self._parts.queue.now() >= self._playback_end
        sentence = Sentence(self._last_id, request, low_latency=request.optimize_for_latency or silence)
        self._unsent[sentence.id] = sentence
        self._pending.put_nowait(sentence)

    def flush(self) -> None:
        """Send the event `flushed` after the sentences queued so far."""
        self._pending.put_nowait("flushed")

    def close(self) -> None:
        """Close the connection after the sentences queued so far."""
        self.closing = True
        self._pending.put_nowait("close")

    async def cancel(self) -> list[int]:
        """Drop everything that is not yet sent. Returns the ids of the sentences that were not sent to their end."""
        await self.stop()
        dropped = list(self._unsent)
        self._start()
        if self.closing:
            self.close()
        return dropped

    async def send_event(self, type: str, **fields: Any) -> None:
        if self._connected:
            await self._socket.send_json({"type": type, **fields})

    @property
    def _connected(self) -> bool:
        return self._socket.application_state is WebSocketState.CONNECTED

    async def _run(self) -> None:
        try:
            await self._send_all()
        except* WebSocketDisconnect:
            pass  # the receiving side gets it too
        except* Exception:
            log.exception("the speaker of a WebSocket failed")
            if self._connected:
                await self._socket.close(1011, INTERNAL_ERROR)

    async def _send_all(self) -> None:
        ahead: asyncio.Queue[Sentence | Control] = asyncio.Queue(LOOK_AHEAD)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._synthesize_ahead(group, ahead))
            while (item := await ahead.get()) != "close":
                if isinstance(item, Sentence):
                    await self._send(item)
                else:
                    await self.send_event(item)
        if self._connected:
            await self._socket.close()

    async def _synthesize_ahead(self, group: asyncio.TaskGroup, ahead: asyncio.Queue[Sentence | Control]) -> None:
        item: Sentence | Control | None = None
        while item != "close":
            item = await self._pending.get()
            if isinstance(item, Sentence):
                self._synthesizing[item.id] = group.create_task(self._synthesize(item))
            await ahead.put(item)

    async def _synthesize(self, sentence: Sentence) -> None:
        end: KokoroError | None = None
        try:
            cutting: Cutting = "stream" if sentence.low_latency else "short_start"
            segments = self._parts.synthesizer.segments(sentence.request.speech(), self._job(sentence), cutting=cutting)
            async with aclosing(segments):
                async for segment in segments:
                    await sentence.segments.put(segment)
        except NothingToSay:
            pass  # a language model may write a bare "—" or an emoji; that is no error
        except KokoroError as error:
            log.warning("sentence failed id=%d code=%s message=%s", sentence.id, error.code, error.message)
            end = error
        except Exception:
            log.exception("sentence failed id=%d", sentence.id)
            end = KokoroError(INTERNAL_ERROR)
        await sentence.segments.put(end)

    def _job(self, sentence: Sentence) -> Job:
        if sentence.low_latency:
            return self._parts.queue.job(bypass=self._parts.bypass, urgent=self._parts.urgent)
        # Like a later piece of a long text: once speech has begun, a longer wait is better than a refusal.
        queue = self._parts.queue
        return replace(queue.job(), first_deadline=queue.later_deadline())

    async def _send(self, sentence: Sentence) -> None:
        await self.send_event("start", id=sentence.id, text=sentence.text)
        try:
            renderer = await self._renderers.open(sentence.request.rendering(sentence.request.format))
            try:
                seconds, skipped = await self._send_segments(sentence, renderer)
            finally:
                await renderer.close()
        except KokoroError as error:
            await self.send_event("error", **error_fields(error), id=sentence.id)
        else:
            self._playback_end = max(self._playback_end, self._parts.queue.now()) + seconds
            await self.send_event("done", id=sentence.id, duration=round(seconds, 4), skipped=skipped)
        finally:
            self._synthesizing.pop(sentence.id).cancel()  # it has ended, unless it was not sent to its end
        del self._unsent[sentence.id]

    async def _send_segments(self, sentence: Sentence, renderer: AsyncRenderer) -> tuple[float, int]:
        """Returns the seconds of audio that were sent, and how many characters were left out as they cannot be said.

        Raises what the sentence failed with.
        """
        samples = unsent = skipped = 0
        while isinstance(segment := await sentence.segments.get(), Segment):
            samples += len(segment.audio)
            unsent += len(segment.audio)
            skipped += segment.skipped
            if segment.words:
                await self.send_event("words", id=sentence.id, words=[asdict(word) for word in segment.words])
            if data := await renderer.write(segment.audio, pcm16=segment.pcm16, last=segment.last):
                await self._send_audio(data, unsent / SAMPLE_RATE)
                unsent = 0
        if segment is not None:
            raise segment
        return samples / SAMPLE_RATE, skipped

    async def _send_audio(self, data: bytes, seconds: float) -> None:
        for start in range(0, len(data), MAX_AUDIO_MESSAGE):
            part = data[start : start + MAX_AUDIO_MESSAGE]
            # `seconds` is for our WebSocketProtocol, which keeps what is sent near to what has been read.
            await self._socket.send(
                {"type": "websocket.send", "bytes": part, "seconds": seconds * len(part) / len(data)}
            )


def error_fields(error: KokoroError) -> Event:
    return {"code": error.code, "message": error.message, "field": error.field}
