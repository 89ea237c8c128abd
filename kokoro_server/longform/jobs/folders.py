"""The files of a job.

FOLDER/jobs.sqlite   the jobs
FOLDER/runner        a lock: held by the process that makes them
FOLDER/ID/upload.*   what was sent
FOLDER/ID/book.json  the book in it
FOLDER/ID/work/      what is spoken, and so need not be spoken again
FOLDER/ID/listen/    chapters that somebody listened to
FOLDER/ID/result/    the files that are fetched
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from kokoro_server.errors import Unavailable
from kokoro_server.longform.books.names import NOT_IN_NAMES, file_stem

LEAST_FREE = 1 << 30  # bytes of the disk that are left to others
RETRY_AFTER = 60.0
_UPLOAD = re.compile(r"upload(\.|$)")
_ID = re.compile(r"[A-Za-z0-9_-]{16}")


class JobFolder:
    def __init__(self, root: Path, id: str) -> None:
        self.path = root / id
        self.book = self.path / "book.json"
        self.work = self.path / "work"
        self.listen = self.path / "listen"
        self.result = self.path / "result"

    def upload(self, name: str) -> Path:
        return self.path / f"upload{PurePath(name).suffix.lower()}"

    def is_left_over(self, before: float) -> bool:
        """Whether there is nothing in it but what jobs have, since that time. Others may keep folders beside it."""
        ours = {self.book.name, self.work.name, self.listen.name, self.result.name}
        try:
            found = [path.name for path in self.path.iterdir()]
            return self.path.stat().st_mtime < before and all(name in ours or _UPLOAD.match(name) for name in found)
        except OSError:  # an upload that was refused just now, a file, or what we may not read
            return False

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def new_id() -> str:
    return secrets.token_urlsafe(12)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def safe_name(name: str, default: str) -> str:
    """A file's name without folders, for all systems."""
    base = re.split(r"[/\\]", name)[-1]
    path = PurePath(NOT_IN_NAMES.sub(" ", base).strip(" .") or default)
    return file_stem(path.stem) + path.suffix[:20]


@contextmanager
def writable() -> Iterator[None]:
    """What the disk refuses for a while is told as such: it is no fault of ours, nor of who asks."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"jobs cannot be kept now: {error.strerror or error}", retry_after=RETRY_AFTER) from error


def check_space(root: Path) -> None:
    """Raises Unavailable where the disk is nearly full."""
    with writable():
        free = shutil.disk_usage(root).free
    if free < LEAST_FREE:
        raise Unavailable("the disk for jobs is nearly full; delete some, or try again later", retry_after=RETRY_AFTER)
