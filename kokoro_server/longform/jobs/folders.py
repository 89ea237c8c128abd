"""The files of a job.

FOLDER/jobs.sqlite   the jobs
FOLDER/runner        a lock, held by the process that makes them
FOLDER/ID/upload.*   the document
FOLDER/ID/book.json  the book that was read from it
FOLDER/ID/work/      passages and clips that are spoken already
FOLDER/ID/listen/    chapters that were fetched early
FOLDER/ID/result/    the files of the result
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

LEAST_FREE = 1 << 30  # bytes of the disk that jobs leave free
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
        """Whether it is older than `before` and holds nothing but files of jobs: users may keep folders beside it."""
        ours = {self.book.name, self.work.name, self.listen.name, self.result.name}
        try:
            found = [path.name for path in self.path.iterdir()]
            return self.path.stat().st_mtime < before and all(name in ours or _UPLOAD.match(name) for name in found)
        except OSError:  # removed just now, a file, or not readable for us
            return False

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def new_id() -> str:
    return secrets.token_urlsafe(12)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def safe_name(name: str, default: str) -> str:
    """The name of a file without its folders, valid on every system."""
    base = re.split(r"[/\\]", name)[-1]
    path = PurePath(NOT_IN_NAMES.sub(" ", base).strip(" .") or default)
    return file_stem(path.stem) + path.suffix[:20]


@contextmanager
def writable() -> Iterator[None]:
    """Raises Unavailable for an OSError: a full disk is no fault of the client's, and may pass."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"jobs cannot be kept now: {error.strerror or error}", retry_after=RETRY_AFTER) from error


def check_space(root: Path) -> None:
    """Raises Unavailable if the disk is nearly full."""
    with writable():
        free = shutil.disk_usage(root).free
    if free < LEAST_FREE:
        raise Unavailable("the disk for jobs is nearly full; delete some, or try again later", retry_after=RETRY_AFTER)
