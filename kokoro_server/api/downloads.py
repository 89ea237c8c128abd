"""Links to the audio of an answer, for clients that ask for one beside the audio.

The file is in a folder of its own on the disk of the jobs, which all processes of the server share. Its name cannot be
guessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import secrets
import time
from functools import partial
from pathlib import Path
from typing import IO

from fastapi import Request, Response
from starlette.types import Message, Receive, Scope, Send

from kokoro_server.api.state import get_services
from kokoro_server.audio.formats import FORMATS, Format
from kokoro_server.errors import NoSuchDownload, NotSupported
from kokoro_server.runtime.files import UNFINISHED, is_nearly_full, make_private_folder, rename
from kokoro_server.runtime.threads import in_thread_to_its_end

log = logging.getLogger(__name__)

LIFETIME = 3600.0  # seconds
MAX_BYTES = 1 << 30  # of all files together
MAX_FILES = 5_000  # all are looked at when another one is begun
NAME = re.compile(rf"[A-Za-z0-9_-]{{22}}\.({'|'.join(FORMATS)})")


def downloads_folder(request: Request) -> Path:
    """Raises NotSupported if the server has no folder to keep files in."""
    folder = get_services(request).settings.downloads_path
    if folder is None:
        reason = "return_download_link: this server keeps no files (JOBS_PATH); the answer is the file"
        raise NotSupported(reason, field="return_download_link")
    return folder


def find_download(folder: Path, name: str) -> Path:
    """Raises NoSuchDownload if there is no such file, or it has become too old."""
    path = folder / name
    if NAME.fullmatch(name):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < LIFETIME:
                return path
    minutes = round(LIFETIME / 60)
    raise NoSuchDownload(f"there is no such file: a link works for {minutes} minutes after its audio has been sent")


class DownloadableResponse(Response):
    """Another answer, whose body is also kept as a file. `X-Download-Path` is its path below `/v1`.

    The file is there once the answer has been sent to its end. If it cannot be kept, the answer is sent nevertheless.
    """

    def __init__(self, answer: Response, folder: Path, format: Format) -> None:
        self.status_code = answer.status_code
        self.raw_headers = answer.raw_headers
        self.background = None
        self._answer = answer
        self._copy = _Copy(folder, f"{secrets.token_urlsafe(16)}.{format}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        copy = self._copy

        async def send_and_keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *copy.headers()]}
            else:
                await in_thread_to_its_end(partial(copy.write, message.get("body", b"")))
                if not message.get("more_body", False):
                    await in_thread_to_its_end(copy.finish)
                    _remove_later(copy.path)
            await send(message)

        try:
            await in_thread_to_its_end(copy.open)
            await self._answer(scope, receive, send_and_keep)
        finally:
            copy.drop()


class _Copy:
    """A file that is being written. No error of the disk leaves it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.path = folder / name
        self._unfinished = folder / (name + UNFINISHED)
        self._file: IO[bytes] | None = None

    def headers(self) -> list[tuple[bytes, bytes]]:
        if self._file is None:
            return [(b"x-download-status", b"unavailable")]
        return [(b"x-download-path", f"/download/{self.path.name}".encode())]

    def open(self) -> None:
        try:
            make_private_folder(self.folder)
            remove_old(self.folder)
            self._check_space()
            self._file = self._unfinished.open("wb", buffering=0)
        except OSError as error:
            self._fail(error)

    def write(self, content: bytes) -> None:
        if self._file is None or not content:
            return
        try:
            self._check_space()
            if self._file.tell() + len(content) > MAX_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            self._file.write(content)
        except OSError as error:
            self._fail(error)

    def finish(self) -> None:
        if self._file is None:
            return
        try:
            rename(self._unfinished, self.path, durable=False)
        except OSError as error:
            self._fail(error)

    def drop(self) -> None:
        """Call it at the end, whatever has happened. What is not finished is removed."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self._unfinished.unlink()

    def _check_space(self) -> None:
        if is_nearly_full(self.folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _fail(self, error: OSError) -> None:
        log.error("a download cannot be kept error=%s", error)
        self.drop()


def _remove_later(path: Path) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(LIFETIME + 1, lambda: loop.run_in_executor(None, partial(path.unlink, missing_ok=True)))


def remove_old(folder: Path) -> None:
    """Remove the files that no link leads to any more, and the oldest ones of too many or too large ones."""
    files, kept = list[tuple[float, int, Path]](), 0
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another answer's file has just got its name, or is gone
            stat = path.stat()
            files.append((stat.st_mtime, stat.st_size, path))
    for number, (changed, size, path) in enumerate(sorted(files, reverse=True), 1):
        is_finished = not path.name.endswith(UNFINISHED)
        kept += size
        if time.time() - changed > LIFETIME or (is_finished and (kept > MAX_BYTES or number > MAX_FILES)):
            with contextlib.suppress(OSError):
                path.unlink()
