"""The folder in which a book is made. It keeps every passage, so that interrupted work goes on from there.

manifest.json    the passages in order, for people and for chapters that are fetched early; written by every run
stretches/       a file for each passage, named by its key; its first line is the hash of the rest
lock             held while a process works in the folder
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from hashlib import sha256
from pathlib import Path

import soundfile
from filelock import FileLock, Timeout

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import Conflict, KokoroError
from kokoro_server.runtime import files
from kokoro_server.runtime.files import UNFINISHED
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.captions import Timing

MANIFEST, LOCK = "manifest.json", "lock"


class CannotWrite(KokoroError, code="cannot_write"):
    """A file of a book cannot be written, or was damaged."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A spoken passage."""

    pcm: bytes  # 16 bits a sample, 24 kHz
    words: tuple[Timing, ...]
    skipped: int  # characters that cannot be spoken

    @property
    def samples(self) -> int:
        return len(self.pcm) // 2


class WorkFolder:
    """Use within `opened`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._passages = path / "stretches"
        self.scratch = path / "scratch"  # for files that are not needed once the book is made

    @contextmanager
    def opened(self) -> Iterator[WorkFolder]:
        """Make and lock the folder. Raises Conflict if another process works in it."""
        with os_errors(self.path):
            for folder in (self._passages, self.scratch):
                folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK, thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise Conflict(f"{self.path}: another process makes this book; wait for it, or stop it") from None
        try:
            for left in self.path.rglob(f"*{UNFINISHED}"):  # by a process that was killed
                left.unlink(missing_ok=True)
            yield self
        finally:
            lock.release()

    def remove(self) -> None:
        """Remove our files. Files of the user, in a folder that happens to have the name, stay."""
        for folder in (self._passages, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for name in (MANIFEST, LOCK):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

    def write_manifest(self, manifest: JsonObject) -> None:
        write(self.path / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1).encode())

    def put(self, key: str, kept: Kept, facts: JsonObject) -> None:
        """Keep a passage. `facts` are for people who open the file."""
        facts = facts | {"words": [astuple(word) for word in kept.words], "skipped": kept.skipped}
        body = json.dumps(facts, ensure_ascii=False).encode() + b"\n" + _flac(kept.pcm)
        write(self._path(key), sha256(body).hexdigest().encode() + b"\n" + body)

    def get(self, key: str) -> Kept | None:
        """A kept passage; None if it is missing or damaged."""
        try:
            digest, _, body = self._path(key).read_bytes().partition(b"\n")
        except OSError:
            return None
        if digest != sha256(body).hexdigest().encode():
            return None
        head, _, audio = body.partition(b"\n")
        facts = json.loads(head)
        words = tuple(Timing(*word) for word in facts["words"])
        return Kept(_samples(audio), words, facts["skipped"])

    def need(self, key: str) -> Kept:
        kept = self.get(key)
        if kept is None:
            raise CannotWrite(f"{self._path(key)}: was damaged while the book was made; run the command again")
        return kept

    def _path(self, key: str) -> Path:
        return self._passages / key


@contextmanager
def os_errors(path: Path) -> Iterator[None]:
    """Raises CannotWrite, which says why, for an error of the system or of libsndfile."""
    try:
        yield
    except OSError as error:
        advice = (
            "; make room and run the command again: finished passages are kept" if error.errno == errno.ENOSPC else ""
        )
        raise CannotWrite(f"{path}: cannot be written: {error.strerror or error}{advice}") from error
    except soundfile.SoundFileError as error:
        raise CannotWrite(f"{path}: cannot be written: {error}; is the disk full?") from error


def check_writable(path: Path) -> None:
    """Make the folder of a file. Raises CannotWrite now, not after hours of work."""
    with os_errors(path):
        if path.parent.is_file():
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path.parent, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """`runtime.files.new_file`, with errors that name the file."""
    with os_errors(path), files.new_file(path) as unfinished:
        yield unfinished


def write(path: Path, content: bytes) -> None:
    with new_file(path) as unfinished:
        unfinished.write_bytes(content)


def _flac(pcm: bytes) -> bytes:
    if not pcm:
        return b""
    sink = io.BytesIO()
    with soundfile.SoundFile(sink, "w", SAMPLE_RATE, 1, format="FLAC", subtype="PCM_16") as file:
        file.buffer_write(pcm, "int16")
    return sink.getvalue()


def _samples(flac: bytes) -> bytes:
    if not flac:
        return b""
    with soundfile.SoundFile(io.BytesIO(flac)) as file:
        return bytes(file.buffer_read(dtype="int16"))
