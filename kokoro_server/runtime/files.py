"""Files that are written first and get their names then, so that a file is either whole or absent; and unnamed ones."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# Of an OSError that passes by itself: too many open files, of the process or of all, or too little memory.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
UNFINISHED = ".unfinished"  # suffix of a file that is being written


@contextmanager
def new_file(path: Path, *, unfinished: Path | None = None, durable: bool = True) -> Iterator[Path]:
    """A path to write to. It takes the place of `path` when the block ends without an error, and is removed otherwise.

    `unfinished` is another path than the usual one, in the same file system. `durable`: content and name are on the
    disk when the block has ended.
    """
    unfinished = unfinished or path.with_name(path.name + UNFINISHED)
    try:
        yield unfinished
        rename(unfinished, path, durable=durable)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def rename(source: Path, target: Path, *, durable: bool = True) -> None:
    """Rename a finished file within one file system. If `durable`, it is on the disk before it has its name."""
    if durable:
        sync(source)
    source.replace(target)
    if durable:
        _sync_folder(target.parent)


def sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a rename last. Not all systems let a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user can read, unless it exists."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def unnamed_file(folder: Path | None) -> IO[bytes]:
    """A file for what is too large for memory. It has no name, so it is gone once it is closed or its process ends.

    `folder` is made if it is absent; None is the system's folder, which may be memory itself.
    """
    if folder is not None:
        make_private_folder(folder)
    return tempfile.TemporaryFile(dir=folder)
