"""Where the audio of a bulk run goes: a file for each line, or WebDataset shards. A file is complete or absent."""

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
from typing import IO

from kokoro_server.longform.bulk.journal import as_json
from kokoro_server.longform.bulk.task import Task
from kokoro_server.runtime.files import new_file
from kokoro_server.runtime.json import JsonObject

WORK = ".bulk"  # in the output folder: the journal, and clips that are not in their place yet
UNFINISHED, PARTS = "unfinished", "parts"  # within WORK


class ClipOutputs:
    """A file for each line."""

    kind = "files"  # part of every key: clips that were made for shards do not count as made for files

    def __init__(self, out: Path) -> None:
        self._out = out

    def file(self, _index: int, name: str) -> str:
        """The file in the output folder that holds the audio of that name."""
        return name

    def has(self, record: JsonObject) -> bool:
        """Whether the audio of a journal's record exists."""
        return _has_size(self._out / record["file"], record["bytes"])

    def place(self, task: Task) -> str:
        """The path in the output folder to which the audio of a task is written."""
        return task.file

    def write(self, task: Task, content: bytes) -> None:
        write(self._out, self.place(task), content)

    def read(self, record: JsonObject) -> bytes:
        path: Path = self._out / record["file"]
        return path.read_bytes()

    def discard(self, file: str) -> None:
        """Remove what an earlier run made of a line that fails now."""
        (self._out / file).unlink(missing_ok=True)

    def block(self, _index: int) -> range | None:
        """The indices of the lines in the same shard; None without shards."""
        return None

    def complete(self, file: str, records: Sequence[JsonObject]) -> None:
        """Write a shard, all of whose lines are made or have failed."""


class Shards(ClipOutputs):
    """Tar files of `size` lines each. Until all lines of a shard are made, their clips wait as files of their own."""

    def __init__(self, out: Path, size: int) -> None:
        super().__init__(out)
        self.kind = f"shards of {size}"
        self._size = size
        self._listed: tuple[str, dict[str, str]] = ("", {})  # the last shard asked for, and the keys in it by name

    def file(self, index: int, _name: str) -> str:
        return f"shard-{index // self._size:06}.tar"

    def has(self, record: JsonObject) -> bool:
        if self._keys(record["file"]).get(record["member"]) == record["key"]:
            return True
        return _has_size(self._part(record["key"]), record["bytes"])

    def place(self, task: Task) -> str:
        return f"{WORK}/{PARTS}/{task.key_text}"

    def read(self, record: JsonObject) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return self._part(record["key"]).read_bytes()
        with tarfile.open(self._out / record["file"]) as shard:
            return _member(shard, record["member"])

    def discard(self, file: str) -> None:
        """The clip disappears when its shard is written again."""

    def block(self, index: int) -> range | None:
        first = index - index % self._size
        return range(first, first + self._size)

    def complete(self, file: str, records: Sequence[JsonObject]) -> None:
        if self._keys(file) != {record["member"]: record["key"] for record in records}:
            self._assemble(file, records)
            self._listed = ("", {})
        for record in records:
            self._part(record["key"]).unlink(missing_ok=True)

    def _assemble(self, file: str, records: Sequence[JsonObject]) -> None:
        path = self._out / file
        with contextlib.ExitStack() as stack:
            old = stack.enter_context(tarfile.open(path)) if self._keys(file) else None
            whole = stack.enter_context(atomically(path, self._out, durable=True))
            shard = stack.enter_context(tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT))
            for record in records:
                member, part = record["member"], self._part(record["key"])
                content = part.read_bytes() if part.exists() or not old else _member(old, member)
                for name, data in ((member, content), (member.partition(".")[0] + ".json", as_json(record))):
                    info = tarfile.TarInfo(name)  # without a time and an owner: the same content is the same file
                    info.size = len(data)
                    shard.addfile(info, io.BytesIO(data))

    def _keys(self, file: str) -> dict[str, str]:
        if self._listed[0] != file:
            self._listed = (file, self._list(self._out / file))
        return self._listed[1]

    @staticmethod
    def _list(path: Path) -> dict[str, str]:
        """Empty for a damaged shard, which is made again."""
        if not path.exists():
            return {}
        try:
            with tarfile.open(path) as shard:
                facts = [json.loads(_member(shard, member)) for member in shard if member.name.endswith(".json")]
        except (tarfile.TarError, ValueError):
            return {}
        return {record["member"]: record["key"] for record in facts}

    def _part(self, key: str) -> Path:
        return self._out / WORK / PARTS / key


def outputs(out: Path, shards: int | None) -> ClipOutputs:
    """Files in a folder, or shards of `shards` lines each."""
    return Shards(out, shards) if shards else ClipOutputs(out)


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
    """Make the folders of a run, without the unfinished files of an earlier one."""
    shutil.rmtree(out / WORK / UNFINISHED, ignore_errors=True)
    for name in (UNFINISHED, PARTS):
        (out / WORK / name).mkdir(exist_ok=True)


def write(out: Path, place: str, content: bytes) -> None:
    with atomically(out / place, out) as file:
        file.write(content)


@contextmanager
def atomically(path: Path, out: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is complete. `durable`: it is on the disk by then."""
    # A process of a killed run may live on for a moment beside the next run's.
    unfinished = out / WORK / UNFINISHED / f"{os.getpid()}-{path.name}"
    with new_file(path, unfinished=unfinished, durable=durable), unfinished.open("wb") as file:
        yield file
