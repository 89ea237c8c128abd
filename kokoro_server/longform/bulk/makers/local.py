"""Makes clips with a speech backend: speaks, encodes, writes, and tries again where that may help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict
from typing import Any, Protocol

from kokoro_server.audio.encode import with_header
from kokoro_server.audio.render import Rendering, render
from kokoro_server.audio.sound import Sound
from kokoro_server.audio.wav import floats
from kokoro_server.client.errors import ClientError
from kokoro_server.errors import KokoroError
from kokoro_server.longform.bulk.outputs import ClipOutputs
from kokoro_server.longform.bulk.task import TRIES, Failed, Made, Task, failure
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.captions import later
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import SpeechBackend

log = logging.getLogger(__name__)

RETRY_AFTER = 1.0  # seconds

Finish = Callable[[Task, Made | Failed], Coroutine[Any, Any, None]]


class Maker(Protocol):
    @property
    def version(self) -> str:
        """With the same version and voices, a request sounds the same."""

    def fingerprint(self, request: JsonObject) -> str:
        """A short text for the contents of the voices that a request names. May read files."""

    async def make(self, tasks: AsyncIterator[Task], outputs: ClipOutputs, finish: Finish) -> None:
        """Make all tasks, many at once, and pass the outcome of each to `finish`, in any order."""


Parse = Callable[[JsonObject], tuple[Speech, Rendering]]  # raises KokoroError for a request that is wrong


class BackendMaker:
    """Makes with a backend, as many tasks at once as keep it busy."""

    def __init__(self, backend: SpeechBackend, parse: Parse) -> None:
        self._backend = backend
        self._parse = parse
        self.version = backend.version
        self.fingerprint = backend.fingerprint

    async def make(self, tasks: AsyncIterator[Task], outputs: ClipOutputs, finish: Finish) -> None:
        free = asyncio.Semaphore(self._backend.parallel)

        async def one(task: Task) -> None:
            try:
                outcome, audio = await self.outcome(task.fields)
                if isinstance(outcome, Made):
                    await asyncio.to_thread(outputs.write, task, audio)
                await finish(task, outcome)
            finally:
                free.release()

        async with asyncio.TaskGroup() as group:
            async for task in tasks:
                await free.acquire()
                group.create_task(one(task))

    async def outcome(self, fields: JsonObject) -> tuple[Made | Failed, bytes]:
        """With the audio file. A failure is that of a second try, unless the request itself was at fault."""
        for tried in range(1, TRIES + 1):
            wait: float | None = None
            try:
                return await self._speak(fields)
            except (KokoroError, ClientError) as error:
                failed = failure(error, tried)
                wait = getattr(error, "retry_after", None)
            except Exception as error:  # a bug of ours in one line must not cost the rest
                log.exception("a line failed in an unforeseen way")
                failed = Failed(KokoroError.code, f"{type(error).__name__}: {error}", None, tried, lasting=False)
            if failed.lasting:
                break
            if tried < TRIES:
                await asyncio.sleep(RETRY_AFTER if wait is None else wait)
        return failed, b""

    async def _speak(self, fields: JsonObject) -> tuple[Made, bytes]:
        speech, rendering = self._parse(fields)
        spoken = await self._backend.speak(speech)
        audio, late = await asyncio.to_thread(encode, spoken.pcm, rendering)
        return Made(len(audio), spoken.seconds, [asdict(later(word, late)) for word in spoken.words]), audio


def encode(pcm: bytes, rendering: Rendering) -> tuple[bytes, float]:
    """A whole file of 16-bit samples at 24 kHz, and by how many seconds sounds come later there.

    Takes a while: call it in a thread.
    """
    if rendering.plain and rendering.output.sample_format == "pcm_s16le" and not rendering.volume:
        return with_header(pcm, rendering.output), 0.0
    audio = floats(pcm)
    return b"".join(render(audio, rendering)), rendering.start(Sound(audio)).late
