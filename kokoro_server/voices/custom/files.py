"""The files of VOICES_PATH: a folder with packs and `voices.json`, or such a JSON file alone."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_server.errors import EXHAUSTED, AssetError, BadRequest
from kokoro_server.voices import Pack, read_pack
from kokoro_server.voices.custom import definitions
from kokoro_server.voices.custom.definitions import check_name
from kokoro_server.voices.packs import SUFFIXES

DEFINITIONS = "voices.json"
MAX_PACKS = 200  # half a megabyte of memory each, in every process

FileVersion = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PackFile:
    """A pack as read. `trouble` says why `pack` is None or older than the file."""

    path: Path
    version: FileVersion
    pack: Pack | None
    trouble: str | None = None
    again: bool = False  # whether it is to be read again, though it has not changed


class CustomVoiceFiles:
    """Its methods raise OSError and ValueError if the folder or the JSON file cannot be read."""

    def __init__(self, path: Path, built_in: Collection[str]) -> None:
        self._folder = None if path.suffix == ".json" else path
        self.definitions = path if self._folder is None else path / DEFINITIONS
        self._built_in = built_in

    def versions(self) -> dict[Path, FileVersion]:
        """Differs whenever a file has changed."""
        if self._folder is None:
            return {self.definitions: _numbers(self.definitions.stat())}
        with os.scandir(self._folder) as entries:
            found = {Path(entry.path): entry for entry in entries if _counts(entry.name)}
            return {path: _version(found[path]) for path in sorted(found)}

    def entries(self) -> dict[str, Any]:
        """The content of the JSON file."""
        try:
            return definitions.read(self.definitions)
        except ValueError as error:
            raise ValueError(f"{self.definitions.name}: {error}") from error

    def packs(
        self, versions: Mapping[Path, FileVersion], before: Mapping[str, PackFile]
    ) -> tuple[dict[str, PackFile], list[str]]:
        """The packs by name, and for each rejected file why. A pack that has not changed is not read again.

        A damaged pack stays as it was `before`: another program may just be writing it.
        """
        paths = [path for path in versions if path.suffix in SUFFIXES]
        if len(paths) > MAX_PACKS:
            raise ValueError(f"has {len(paths)} voice packs; at most {MAX_PACKS} are allowed")
        found, rejected = dict[str, PackFile](), list[str]()
        for path in paths:
            try:
                check_name(path.stem, self._built_in)
            except BadRequest as error:
                rejected.append(f"{path.name}: {error.message}")
                continue
            if path.stem in found:
                rejected.append(f"{path.name}: has the same name as {found[path.stem].path.name}")
                continue
            known = before.get(path.stem)
            is_same = known and not known.again and (known.path, known.version) == (path, versions[path])
            found[path.stem] = known if known and is_same else _read(path, versions[path], known)
        return found, rejected


def _read(path: Path, version: FileVersion, before: PackFile | None) -> PackFile:
    try:
        return PackFile(path, version, read_pack(path))
    except (AssetError, OSError) as error:
        again = isinstance(error, OSError) and error.errno in EXHAUSTED
        return PackFile(path, version, before.pack if before else None, str(error), again)


def _counts(name: str) -> bool:
    return name == DEFINITIONS or (name.endswith(SUFFIXES) and not name.startswith("."))


def _version(entry: os.DirEntry[str]) -> FileVersion:
    try:
        return _numbers(entry.stat())
    except OSError:  # a broken link must not affect the other files
        return ()


def _numbers(status: os.stat_result) -> FileVersion:
    # ctime: access rights, too
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
