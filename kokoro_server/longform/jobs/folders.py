"""The files of a job.

FOLDER/jobs.sqlite    the jobs
FOLDER/opening        a lock, held by a process that opens jobs.sqlite
FOLDER/runner         a lock, held by the process that makes the jobs
FOLDER/spool/         files without names
FOLDER/downloads/     files that links of answers lead to
FOLDER/ID/job.json    the job without its progress, from which a lost jobs.sqlite is made again
FOLDER/ID/upload.*    the document
FOLDER/ID/.owner      a lock, held by the process that takes the document, until the job is stored
FOLDER/ID/book.json   the book that was read from it
FOLDER/ID/voices.zip  the custom voices that speak it, as they were when it was sent
FOLDER/ID/work/       passages and clips that are spoken already
FOLDER/ID/listen/     chapters that were fetched early
FOLDER/ID/result/     the files of the result

All of it is for the user alone who runs the server, whatever the umask.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO

from kokoro_server.errors import Unavailable
from kokoro_server.longform.books.names import NOT_IN_NAMES, file_stem
from kokoro_server.runtime.files import OWNER, UNFINISHED, is_nearly_full, own

RETRY_AFTER = 60.0
_UPLOAD = re.compile(r"upload(\.|$)")
_ID = re.compile(r"[A-Za-z0-9_-]{16}")
OURS = ("jobs.sqlite", "opening", "runner", "spool", "downloads")  # with which the names of files beside the jobs begin
FOLDER_MODE, FILE_MODE = 0o700, 0o600


class JobFolder:
    def __init__(self, root: Path, id: str) -> None:
        self.path = root / id
        self.record = self.path / "job.json"
        self.owner = self.path / OWNER
        self.book = self.path / "book.json"
        self.voices = self.path / "voices.zip"
        self.work = self.path / "work"
        self.listen = self.path / "listen"
        self.result = self.path / "result"

    def upload(self, name: str) -> Path:
        return self.path / f"upload{PurePath(name).suffix.lower()}"

    def make(self) -> None:
        self.path.mkdir(FOLDER_MODE)

    def make_own(self) -> IO[bytes] | None:
        """Make it, as this process's until what is returned is closed."""
        self.make()
        try:
            return own(self.path)
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    @property
    def is_ours(self) -> bool:
        """Whether it holds nothing but files of jobs: users may keep folders beside it."""
        known = (self.record, self.owner, self.book, self.voices, self.work, self.listen, self.result)
        ours = {path.name for path in known}
        try:
            # A process that was killed leaves unfinished files.
            names = [path.name.removesuffix(UNFINISHED) for path in self.path.iterdir()]
        except OSError:  # removed just now, a file, or not readable for us
            return False
        return all(name in ours or _UPLOAD.match(name) for name in names)

    @property
    def is_bare(self) -> bool:
        """Whether it holds no more than a process that was killed at its first or last step with it leaves."""
        try:
            return all(path.name.removesuffix(UNFINISHED) == OWNER for path in self.path.iterdir())
        except OSError:
            return False

    @property
    def has_work(self) -> bool:
        """Whether it holds a result, or passages and clips that were spoken for one."""
        return any(path.is_file() for folder in (self.work, self.result) for path in folder.rglob("*"))

    def remove(self) -> int | None:
        """Returns how many bytes it had. None if not all of it could be removed: there may be no descriptors."""
        size = sum(_size(Path(folder, name)) for folder, _, names in os.walk(self.path) for name in names)
        with contextlib.suppress(OSError):
            self.record.unlink(missing_ok=True)  # first: half a job must not be found again
        shutil.rmtree(self.path, ignore_errors=True)
        return None if self.path.exists() else size

    def make_private(self) -> None:
        make_private(self.path)
        for folder, folders, names in os.walk(self.path):
            for name in (*folders, *names):
                make_private(Path(folder, name))


def make_root(root: Path) -> None:
    """Make the folder of all jobs; one that holds other files as well keeps its access rights."""
    root.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    if all(path.name.startswith(OURS) or is_id(path.name) for path in root.iterdir()):
        make_private(root)


def make_private(path: Path) -> None:
    """Let nobody but its owner read a file or folder."""
    with contextlib.suppress(OSError):  # it is not ours, or was removed just now
        if not path.is_symlink():
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


def is_private(path: Path) -> bool:
    return not path.stat().st_mode & 0o077


def new_id() -> str:
    return secrets.token_urlsafe(12)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def safe_name(name: str, default: str) -> str:
    """The name of a file without its folders, valid on every system."""
    base = re.split(r"[/\\]", name)[-1]
    path = PurePath(NOT_IN_NAMES.sub(" ", base).strip(" .") or default)
    return file_stem(path.stem) + path.suffix[:20]


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # removed just now
        return 0


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
        full = is_nearly_full(root)
    if full:
        raise Unavailable("the disk for jobs is nearly full; delete some, or try again later", retry_after=RETRY_AFTER)
