"""Rendering for coroutines: in a thread, or on the event loop if that is faster than a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, TypeVar

from kokoro_server.audio.render import Renderer, Rendering, render, render_fast
from kokoro_server.engine.protocol import Audio, Pcm16
from kokoro_server.errors import TooBusy
from kokoro_server.observability import tracing

T = TypeVar("T")


class Renderers:
    """Makes files, whole or chunk by chunk.

    An AAC encoder is a process, and at most `max_processes` run. Further ones wait in line, at most `timeout` seconds,
    then raise TooBusy.
    """

    def __init__(self, max_processes: int, timeout: float) -> None:
        self._limit = max_processes
        self._timeout = timeout
        self._places = asyncio.Semaphore(max_processes)
        # A process takes half a second to start, so these renderers have their own threads: two for each, as one
        # may still write to a process that the other ends.
        self._threads = ThreadPoolExecutor(2 * max_processes, "aac")

    async def render(self, audio: Audio, rendering: Rendering, pcm16: Pcm16 | None = None) -> list[bytes]:
        """Returns a whole file, in parts."""
        with tracing.step("encode"):
            content = render_fast(audio, rendering, pcm16=pcm16)
            if content is not None:
                return [content]
            if not rendering.needs_process:
                return await asyncio.to_thread(render, audio, rendering)
            await self._take_place()
            # If the caller is cancelled, the process keeps its place until it ends.
            rendered = _in_thread(self._threads, partial(render, audio, rendering), self._places.release)
            return await asyncio.shield(rendered)

    async def open(self, rendering: Rendering, file: IO[bytes] | None = None) -> AsyncRenderer:
        """Returns a renderer, whose `close` must be called. If the caller is cancelled first, it is closed.

        With `file`, it writes there, in a thread, and returns no bytes.
        """
        if rendering.plain:
            return AsyncRenderer(Renderer(rendering, file))
        if not rendering.needs_process:
            return AsyncRenderer(await asyncio.to_thread(Renderer, rendering, file))
        await self._take_place()
        opening = _in_thread(self._threads, partial(Renderer, rendering, file))
        try:
            renderer = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._discard)
            raise
        except BaseException:
            self._places.release()
            raise
        return AsyncRenderer(renderer, self._threads, self._places.release)

    def _discard(self, opening: asyncio.Future[Renderer]) -> None:
        if opening.exception() is None:
            _in_thread(self._threads, opening.result().close, self._places.release)
        else:
            self._places.release()

    async def _take_place(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._places.acquire()
        except TimeoutError:
            raise TooBusy(
                f"{self._limit} AAC encoders are running, the most allowed (MAX_AAC_ENCODERS); try again later, or "
                "ask for another format",
                retry_after=5.0,
            ) from None


class AsyncRenderer:
    """A file chunk by chunk, one call at a time. `close` must be called, whether or not the file is finished."""

    def __init__(
        self, renderer: Renderer, threads: ThreadPoolExecutor | None = None, on_closed: Callable[[], None] | None = None
    ) -> None:
        """`threads` and `on_closed` are for a renderer that holds a process; `on_closed` is called when it ends."""
        self._renderer = renderer
        self._threads = threads
        self._on_closed = on_closed

    async def write(self, audio: Audio, *, pcm16: Pcm16 | None = None, last: bool = False) -> bytes:
        """Returns the bytes that are ready; with the `last` samples, all remaining bytes."""
        with tracing.step("encode"):
            data = self._renderer.write_fast(audio, pcm16=pcm16, last=last)
            if data is not None:
                return data
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._write, audio, last)

    async def finish(self) -> bytes:
        """Returns all remaining bytes, if no `write` had the last samples."""
        if self._renderer.plain:
            return self._renderer.finish()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._renderer.finish)

    async def close(self) -> None:
        """It may be called again."""
        on_closed, self._on_closed = self._on_closed, None
        if self._threads is None:
            self._renderer.close()
        else:
            await asyncio.shield(_in_thread(self._threads, self._renderer.close, on_closed))

    def _write(self, audio: Audio, last: bool) -> bytes:
        data = self._renderer.write(audio)
        return data + self._renderer.finish() if last else data


def _in_thread(
    threads: ThreadPoolExecutor, work: Callable[[], T], then: Callable[[], None] | None = None
) -> asyncio.Future[T]:
    """Runs to its end and calls `then`, even if the awaiting task is cancelled, provided that it shields the future."""
    running = asyncio.get_running_loop().run_in_executor(threads, work)
    if then is not None:
        running.add_done_callback(lambda _: then())
    return running
