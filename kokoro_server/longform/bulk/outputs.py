"""Where the audio of a bulk run goes: a file for each line, or WebDataset shards. No file is ever half there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from kokoro_server.longform.bulk.task import Task
from kokoro_server.runtime.files import new_file

WORK = ".bulk"  # in the output folder: the journal, and what is not yet in its place
UNFINISHED, PARTS = "unfinished", "parts"  # in that


class ClipOutputs(Protocol):
    kind: str  # told apart in keys: what was made for another is made anew

    def file(self, index: int, name: str, /) -> str:
        """The file in the output folder that has the audio of that name."""

    def has(self, record: dict[str, Any]) -> bool:
        """Whether the audio is there of which the journal tells."""

    def place(self, task: Task) -> str:
        """Where in the output folder its audio is to be written."""

    def write(self, task: Task, content: bytes) -> None: ...

    def read(self, record: dict[str, Any]) -> bytes: ...

    def discard(self, file: str) -> None:
        """Remove what an earlier run has left in place of what cannot be made."""

    def block(self, index: int, /) -> range | None:
        """The indices of its shard, if there are any."""

    def complete(self, file: str, records: Sequence[dict[str, Any]], /) -> None:
        """All of a shard is made."""


def outputs(out: Path, shards: int | None) -> ClipOutputs:
    """Files in a folder, or shards of so many lines."""
    return Shards(out, shards) if shards else Files(out)


class Files:
    kind = "files"

    def __init__(self, out: Path) -> None:
        self._out = out

    def file(self, _index: int, name: str) -> str:
        return name

    def has(self, record: dict[str, Any]) -> bool:
        return _has_size(self._out / record["file"], record["bytes"])

    def place(self, task: Task) -> str:
        return task.file

    def write(self, task: Task, content: bytes) -> None:
        write(self._out, self.place(task), content)

    def read(self, record: dict[str, Any]) -> bytes:
        path: Path = self._out / record["file"]
        return path.read_bytes()

    def discard(self, file: str) -> None:
        (self._out / file).unlink(missing_ok=True)

    def block(self, _index: int) -> range | None:
        return None

    def complete(self, _file: str, _records: Sequence[dict[str, Any]]) -> None:
        raise AssertionError("there are no shards")


class Shards:
    """Tar files of `size` lines each. Until all of one are made, they wait as files of their own."""

    def __init__(self, out: Path, size: int) -> None:
        self.kind = f"shards of {size}"
        self._out = out
        self._size = size
        self._parts = out / WORK / PARTS
        self._listed: tuple[str, dict[str, str]] = ("", {})  # the keys in a shard, by name: of the last one asked for

    def file(self, index: int, _name: str) -> str:
        return f"shard-{index // self._size:06}.tar"

    def has(self, record: dict[str, Any]) -> bool:
        if self._keys(record["file"]).get(record["member"]) == record["key"]:
            return True
        return _has_size(self._part(record["key"]), record["bytes"])

    def place(self, task: Task) -> str:
        return f"{WORK}/{PARTS}/{task.key_text}"

    def write(self, task: Task, content: bytes) -> None:
        write(self._out, self.place(task), content)

    def read(self, record: dict[str, Any]) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return self._part(record["key"]).read_bytes()
        with tarfile.open(self._out / record["file"]) as shard:
            return _member(shard, record["member"])

    def discard(self, file: str) -> None:
        """It goes when its shard is written anew."""

    def block(self, index: int) -> range | None:
        first = index - index % self._size
        return range(first, first + self._size)

    def complete(self, file: str, records: Sequence[dict[str, Any]]) -> None:
        if self._keys(file) != {record["member"]: record["key"] for record in records}:
            self._assemble(file, records)
            self._listed = ("", {})
        for record in records:
            self._part(record["key"]).unlink(missing_ok=True)

    def _assemble(self, file: str, records: Sequence[dict[str, Any]]) -> None:
        path = self._out / file
        with contextlib.ExitStack() as stack:
            old = stack.enter_context(tarfile.open(path)) if self._keys(file) else None
            whole = stack.enter_context(atomically(path, self._out, durable=True))
            shard = stack.enter_context(tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT))
            for record in records:
                part = self._part(record["key"])
                content = part.read_bytes() if part.exists() or not old else _member(old, record["member"])
                facts = json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace")
                for name, data in ((record["member"], content), (_facts_name(record["member"]), facts)):
                    info = tarfile.TarInfo(name)  # of no time and nobody: the same content is the same file
                    info.size = len(data)
                    shard.addfile(info, io.BytesIO(data))

    def _keys(self, file: str) -> dict[str, str]:
        if self._listed[0] != file:
            self._listed = (file, self._list(self._out / file))
        return self._listed[1]

    @staticmethod
    def _list(path: Path) -> dict[str, str]:
        """Of a shard that is damaged, nothing is there: it is made anew."""
        if not path.exists():
            return {}
        try:
            with tarfile.open(path) as shard:
                facts = [json.loads(_member(shard, member)) for member in shard if member.name.endswith(".json")]
        except (tarfile.TarError, ValueError):
            return {}
        return {record["member"]: record["key"] for record in facts}

    def _part(self, key: str) -> Path:
        return self._parts / key


def _facts_name(member: str) -> str:
    return member.partition(".")[0] + ".json"


def _member(shard: tarfile.TarFile, member: str | tarfile.TarInfo) -> bytes:
    file = shard.extractfile(member)
    assert file
    return file.read()


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def prepare(out: Path) -> None:
    """Make the folders in which work goes on, without what was left half written."""
    shutil.rmtree(out / WORK / UNFINISHED, ignore_errors=True)
    for name in (UNFINISHED, PARTS):
        (out / WORK / name).mkdir(exist_ok=True)


def write(out: Path, place: str, content: bytes) -> None:
    with atomically(out / place, out) as file:
        file.write(content)


@contextmanager
def atomically(path: Path, out: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A file that has its name when it is whole. `durable`: it is on the disk by then."""
    # A process of a killed run may live on for a moment beside the next run's.
    unfinished = out / WORK / UNFINISHED / f"{os.getpid()}-{path.name}"
    with new_file(path, unfinished=unfinished, durable=durable), unfinished.open("wb") as file:
        yield file
