"""Sentences of one voice agent, spoken in order over its WebSocket."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from fastapi import WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from kokoro_server.api.schemas import TTSRequest
from kokoro_server.audio.render import Renderer
from kokoro_server.batching.queue import BatchQueue, Job
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError, NothingToSay
from kokoro_server.synthesis import Segment, Synthesizer

log = logging.getLogger(__name__)

LOOK_AHEAD = 2  # sentences that are made while one before them is being sent
FRAME = 16_384  # bytes of audio in a message at most: a third of a second of 16-bit samples at 24 kHz
FAILED = "something went wrong on the server; its log has the details"

Mark = dict[str, Any]
Order = Literal["flushed", "close"]  # what stands in the queue between sentences


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    id: int
    wanted: TTSRequest
    hurried: bool
    # What is made of it, as it is made; at the end nothing, or why it failed.
    made: asyncio.Queue[Segment | KokoroError | None] = field(default_factory=asyncio.Queue)

    @property
    def text(self) -> str:
        return self.wanted.text or ""


class Speaker:
    """Takes sentences, makes a few of them ahead, and sends marks and audio, one sentence after another.

    It starts at once and must be stopped.
    """

    def __init__(
        self, socket: WebSocket, synthesizer: Synthesizer, queue: BatchQueue, bypass: int, urgent: int
    ) -> None:
        self._socket = socket
        self._synthesizer = synthesizer
        self._queue = queue
        self._bypass = bypass
        self._urgent = urgent
        self._ids = 0
        self.closing = False
        self._begin()

    def _begin(self) -> None:
        self._waiting: asyncio.Queue[Sentence | Order] = asyncio.Queue()
        self._unspoken: dict[int, Sentence] = {}
        self._heard_until = 0.0  # when a client that plays at once will have played what it was sent
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Abandon everything, also what is in the batch queue."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    @property
    def unspoken(self) -> int:
        """Characters of the sentences that are not yet sent."""
        return sum(len(sentence.text) for sentence in self._unspoken.values())

    def say(self, wanted: TTSRequest) -> None:
        """A sentence for which somebody waits in silence takes the bypass lane."""
        self._ids += 1
        silence = not self._unspoken and self._queue.now() >= self._heard_until
        sentence = Sentence(self._ids, wanted, hurried=wanted.optimize_for_latency or silence)
        self._unspoken[sentence.id] = sentence
        self._waiting.put_nowait(sentence)

    def flush(self) -> None:
        """Send the mark `flushed` after what has been said so far."""
        self._waiting.put_nowait("flushed")

    def close(self) -> None:
        """Close the connection after what has been said so far."""
        self.closing = True
        self._waiting.put_nowait("close")

    async def cancel(self) -> list[int]:
        """Drop everything that is not yet sent. Gives the ids of the sentences that were not spoken to their end."""
        await self.stop()
        dropped = list(self._unspoken)
        self._begin()
        if self.closing:
            self.close()
        return dropped

    async def mark(self, type: str, **facts: Any) -> None:
        if self._open:
            await self._socket.send_json({"type": type, **facts})

    @property
    def _open(self) -> bool:
        return self._socket.application_state is WebSocketState.CONNECTED

    async def _run(self) -> None:
        try:
            await self._speak()
        except* WebSocketDisconnect:
            pass  # whoever receives is told as well
        except* Exception:
            log.exception("the speaker of a WebSocket failed")
            if self._open:
                await self._socket.close(1011, FAILED)

    async def _speak(self) -> None:
        ahead: asyncio.Queue[Sentence | Order] = asyncio.Queue(LOOK_AHEAD)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_ahead(group, ahead))
            while (item := await ahead.get()) != "close":
                if isinstance(item, Sentence):
                    await self._send(item)
                else:
                    await self.mark(item)
        if self._open:
            await self._socket.close()

    async def _start_ahead(self, group: asyncio.TaskGroup, ahead: asyncio.Queue[Sentence | Order]) -> None:
        item: Sentence | Order | None = None
        while item != "close":
            item = await self._waiting.get()
            if isinstance(item, Sentence):
                group.create_task(self._make(item))
            await ahead.put(item)

    async def _make(self, sentence: Sentence) -> None:
        end: KokoroError | None = None
        try:
            segments = self._synthesizer.segments(
                sentence.wanted.speech(), self._job(sentence), streamed=sentence.hurried
            )
            async with aclosing(segments):
                async for segment in segments:
                    sentence.made.put_nowait(segment)
        except NothingToSay:
            pass  # a writer's bare "—" or emoji is no mistake
        except KokoroError as error:
            log.warning("sentence failed id=%d code=%s message=%s", sentence.id, error.code, error.message)
            end = error
        except Exception:
            log.exception("sentence failed id=%d", sentence.id)
            end = KokoroError(FAILED)
        sentence.made.put_nowait(end)

    def _job(self, sentence: Sentence) -> Job:
        if sentence.hurried:
            return self._queue.job(bypass=self._bypass, urgent=self._urgent)
        # Like the later pieces of a long text: what has begun is not refused for a wait that can be borne.
        job = self._queue.job()
        return replace(job, first_deadline=job.deadline)

    async def _send(self, sentence: Sentence) -> None:
        await self.mark("start", id=sentence.id, text=sentence.text)
        renderer = await asyncio.to_thread(Renderer, sentence.wanted.rendering(sentence.wanted.format))
        samples = 0
        try:
            while isinstance(segment := await sentence.made.get(), Segment):
                samples += len(segment.audio)
                if segment.words:
                    await self.mark("words", id=sentence.id, words=[asdict(word) for word in segment.words])
                await self._frames(await asyncio.to_thread(renderer.write, segment.audio))
            if segment is None:
                await self._frames(await asyncio.to_thread(renderer.finish) if samples else b"")
                seconds = samples / SAMPLE_RATE
                self._heard_until = max(self._heard_until, self._queue.now()) + seconds
                await self.mark("done", id=sentence.id, duration=round(seconds, 4))
            else:
                await self.mark("error", **error_facts(segment), id=sentence.id)
            del self._unspoken[sentence.id]
        finally:
            await asyncio.to_thread(renderer.close)

    async def _frames(self, data: bytes) -> None:
        for start in range(0, len(data), FRAME):
            await self._socket.send_bytes(data[start : start + FRAME])


def error_facts(error: KokoroError) -> Mark:
    return {"code": error.code, "message": error.message, "field": error.field}
