"""Files that are written first and get their names then, so that a file is either whole or absent; and unnamed ones.

Also temporary folders that a process which is killed does not leave behind for good.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"  # suffix of a file that is being written
LEAST_FREE = 1 << 30  # bytes of the jobs' disk that nothing takes
OWNER = ".owner"  # a file in an owned folder, which its owner has locked


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


def read_ahead(path: Path) -> None:
    """Have the system read the file into memory while this process does something else. Where it cannot, nothing."""
    with contextlib.suppress(AttributeError, OSError), path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def version(path: Path) -> tuple[int, ...]:
    """Differs whenever the file has changed; empty for one that cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


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


def is_nearly_full(folder: Path) -> bool:
    """Whether the disk has less than LEAST_FREE left."""
    return shutil.disk_usage(folder).free < LEAST_FREE


def unnamed_file(folder: Path | None) -> IO[bytes]:
    """A file for what is too large for memory. It has no name, so it is gone once it is closed or its process ends.

    `folder` is made if it is absent; None is the system's folder, which may be memory itself. Raises OSError if the
    disk of `folder` is nearly full: what is left is for what is kept there.
    """
    if folder is not None:
        make_private_folder(folder)
        if is_nearly_full(folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return tempfile.TemporaryFile(dir=folder)


class OwnedFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that is removed when its owner is done.

    A process that is killed cannot remove its folders. The next one that makes a folder with the same prefix does.
    """

    def __init__(self, prefix: str, parent: str | None = None) -> None:
        for owner in Path(parent or tempfile.gettempdir()).glob(f"{prefix}*/{OWNER}"):
            if is_ownerless(owner.parent):
                shutil.rmtree(owner.parent, ignore_errors=True)
        super().__init__(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
        self._lock = own(Path(self.name))

    def cleanup(self) -> None:
        super().cleanup()
        if self._lock:
            self._lock.close()


def own(folder: Path) -> IO[bytes] | None:
    """Mark a folder as this process's, until the returned file is closed or the process ends. None on Windows."""
    if not fcntl:
        return None
    owner = folder / OWNER
    lock = owner.with_suffix(UNFINISHED).open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        owner.with_suffix(UNFINISHED).rename(owner)
    except OSError:
        lock.close()
        raise
    return lock


def is_ownerless(folder: Path) -> bool:
    """Whether the process that marked the folder as its own has ended, or closed its mark."""
    owner = folder / OWNER
    with contextlib.suppress(OSError), owner.open("rb") as file:  # has no mark, is another user's, or has just gone
        if fcntl and owner.stat().st_uid == os.getuid():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
