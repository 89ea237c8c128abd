"""Files of the cache: their hashes, atomic writes, and space on the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kokoro_server.assets.catalog import PinnedFile
from kokoro_server.errors import AssetError
from kokoro_server.runtime.files import new_file

PUBLIC = 0o644


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fault(path: Path, digest: str, size: int) -> str | None:
    """How the file differs from what is expected; None if it does not."""
    if not path.is_file():
        return "missing"
    if (got := path.stat().st_size) != size:
        return f"wrong size, expected {size} bytes, got {got}"
    found = sha256(path)
    return None if found == digest else f"wrong content, expected sha256 {digest}, got {found}"


def intact(path: Path, digest: str, size: int) -> bool:
    return fault(path, digest, size) is None


def check(path: Path, expected: PinnedFile) -> None:
    """Raise AssetError unless the file has the pinned content."""
    if found := fault(path, expected.sha256, expected.size):
        raise AssetError(f"{path}: {found}")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """`runtime.files.new_file`, for a file that all users may read: a cache may be shared."""
    with new_file(path) as unfinished:
        yield unfinished
        unfinished.chmod(PUBLIC)


def atomic_write(path: Path, content: bytes) -> None:
    with atomic_path(path) as unfinished:
        unfinished.write_bytes(content)


def require_space(directory: Path, needed: int) -> None:
    free = free_bytes(directory)
    if free < needed:
        raise AssetError(f"no space in {directory}: about {megabytes(needed)} needed, {megabytes(free)} free")


def free_bytes(directory: Path) -> int:
    """The space for a folder, which need not exist yet."""
    return shutil.disk_usage(_nearest(directory)).free


def is_writable(directory: Path) -> bool:
    """Whether a folder, which need not exist yet, takes files of this user."""
    return os.access(_nearest(directory), os.W_OK)


def _nearest(directory: Path) -> Path:
    """The folder, or the first one above it that exists."""
    return next(each for each in (directory, *directory.absolute().parents) if each.exists())


def tree_bytes(directory: Path) -> int:
    """The size of all files in a folder and below."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += Path(folder, name).stat().st_size
            except OSError:  # files come and go while a client downloads
                continue
    return total


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


@contextmanager
def explain_os_errors(directory: Path) -> Iterator[None]:
    """Turn an OSError in the cache into an AssetError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = f"{megabytes(free_bytes(directory))} free, the model and its sources take about 1 GB; make room"
            raise AssetError(f"no space left in {directory}: {advice} or set KOKORO_CACHE_DIR") from error
        advice = "set KOKORO_CACHE_DIR to a folder that this user can read and write"
        raise AssetError(f"cannot use the cache {directory}: {error}; {advice}") from error
