"""Rendering for coroutines: in a thread, or on the event loop where that takes less time than a thread would."""

from __future__ import annotations

import asyncio

from kokoro_server.audio.render import Renderer, Rendering, render, render_fast
from kokoro_server.engine.protocol import Audio, Pcm16


async def render_async(audio: Audio, rendering: Rendering, pcm16: Pcm16 | None = None) -> bytes:
    """A whole file."""
    content = render_fast(audio, rendering, pcm16=pcm16)
    return await asyncio.to_thread(render, audio, rendering) if content is None else content


async def open_renderer(rendering: Rendering) -> Renderer:
    """A renderer. Its encoder may be a process, which is ended even if the caller is cancelled while it starts."""
    if rendering.plain:
        return Renderer(rendering)
    opening = asyncio.ensure_future(asyncio.to_thread(Renderer, rendering))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_discard)
        raise


def _discard(opening: asyncio.Future[Renderer]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)


class AsyncRenderer:
    """A file chunk by chunk, one call at a time. `close` must be called, whether or not the file is finished."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    @classmethod
    async def open(cls, rendering: Rendering) -> AsyncRenderer:
        return cls(await open_renderer(rendering))

    async def write(self, audio: Audio, *, last: bool = False) -> bytes:
        """The bytes that are ready; with the `last` samples, all remaining bytes."""
        data = self._renderer.write_fast(audio, last=last)
        return await asyncio.to_thread(self._write, audio, last) if data is None else data

    async def close(self) -> None:
        if self._renderer.plain:
            self._renderer.close()
        else:
            await asyncio.to_thread(self._renderer.close)

    def _write(self, audio: Audio, last: bool) -> bytes:
        data = self._renderer.write(audio)
        return data + self._renderer.finish() if last else data
