"""The files of whole clips: short ones in memory, long ones on the disk, where they grow as the clip is made."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from starlette.requests import Request

from kokoro_server.api.async_render import AsyncRenderer
from kokoro_server.api.state import app_state
from kokoro_server.audio.render import Rendering, SoundStart
from kokoro_server.audio.sound import Sound
from kokoro_server.callers.current import caller
from kokoro_server.errors import Unavailable
from kokoro_server.runtime.files import unnamed_file
from kokoro_server.synthesis.clip import Clip

log = logging.getLogger(__name__)

CHUNK_BYTES = 192 * 1024  # that are read from the disk at once; divisible by 3, for base64
DISK_RETRY_AFTER = 30.0  # seconds
SMALL = 64 * 1024  # bytes of an answer that is not worth a file


@dataclass(frozen=True, slots=True, eq=False)
class ClipFile:
    """A whole file: `parts` in memory, or `file` on the disk."""

    size: int  # bytes
    parts: Sequence[bytes] = ()
    file: IO[bytes] | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for part in self.parts:
            yield part
        if self.file is not None:
            await asyncio.to_thread(self.file.seek, 0)
            while chunk := await asyncio.to_thread(self.file.read, CHUNK_BYTES):
                yield chunk

    async def close(self) -> None:
        if self.file is not None:
            await asyncio.to_thread(close_unnamed, self.file)


class ClipSpool:
    """An `Overflow` onto the disk, and the renderer of a clip that needs none. The end of the request closes it."""

    in_memory = False

    def __init__(self, request: Request, rendering: Rendering) -> None:
        self._request = request
        self._rendering = rendering
        self._file: IO[bytes] | None = None
        self._renderer: AsyncRenderer | None = None
        self._start: SoundStart | None = None

    def start(self, clip: Clip) -> SoundStart:
        """How the file of the clip begins. Of a clip that is on the disk, the peak is that of its first part."""
        return self._start or self._rendering.start(clip.sound or Sound.silence(0))

    async def write(self, sound: Sound) -> None:
        self._start = self._start or self._rendering.start(sound)
        with disk_errors():
            renderer = self._renderer or await self._open()
            await renderer.write(sound.audio)

    async def rendered(self, clip: Clip) -> ClipFile:
        """The file of the clip that was spoken with this overflow."""
        if clip.sound is not None:
            parts = await app_state(self._request).renderers.render(clip.audio, self._rendering, clip.pcm16)
            return ClipFile(sum(map(len, parts)), parts)
        assert self._renderer
        assert self._file
        with disk_errors():
            await self._renderer.finish()
            size = await asyncio.to_thread(self._file.seek, 0, 2)
        await self._renderer.close()  # an encoder's process need not wait until the file is sent
        return ClipFile(size, file=self._file)

    async def _open(self) -> AsyncRenderer:
        state, on_end = app_state(self._request), self._request.scope["on_end"]
        self._file = await _new_file(state.services.settings.spool_path)
        on_end.push_async_callback(asyncio.to_thread, close_unnamed, self._file)
        self._renderer = await state.renderers.open(self._rendering, self._file)
        on_end.push_async_callback(self._renderer.close)
        return self._renderer


def takes_memory(request: Request, size: int, sent: ExitStack | None = None) -> bool:
    """Whether an answer may be in memory until its client, who may be slow, has read it. It is counted as long.

    `sent` is closed then, or else the request ends.
    """
    answers, name = app_state(request).answers, caller.get()
    if size > SMALL and answers.is_full_for(name):
        return False
    answers.take(name, size)
    (sent or request.scope["on_end"]).callback(answers.give_back, name, size)
    return True


async def within_memory(request: Request, content: ClipFile, sent: ExitStack | None = None) -> ClipFile:
    """The same file, on the disk if those that wait for their readers fill the memory."""
    if content.file is not None or takes_memory(request, content.size, sent):
        return content
    return await spooled(request, content)


async def spooled(request: Request, content: ClipFile) -> ClipFile:
    """The same file on the disk."""
    with disk_errors():
        file = await _new_file(app_state(request).services.settings.spool_path)
        request.scope["on_end"].push_async_callback(asyncio.to_thread, close_unnamed, file)
        await asyncio.to_thread(file.writelines, content.parts)
    return ClipFile(content.size, file=file)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Raises Unavailable if the disk cannot be written."""
    try:
        yield
    except OSError as error:
        log.error("a clip cannot be written to the disk error=%s", error)
        raise Unavailable(
            f"the disk for long clips cannot be written: {error.strerror or error}; try again later, or use POST "
            "/tts/stream, which needs no disk",
            retry_after=DISK_RETRY_AFTER,
        ) from error


def close_unnamed(file: IO[bytes]) -> None:
    """A file on a full disk cannot write its last bytes when it is closed. Nobody needs them any more."""
    with contextlib.suppress(OSError):
        file.close()


async def _new_file(folder: Path | None) -> IO[bytes]:
    opening = asyncio.ensure_future(asyncio.to_thread(unnamed_file, folder))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(lambda opened: opened.exception() or opened.result().close())
        raise
