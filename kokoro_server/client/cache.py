"""Caches of clips, for texts that are spoken again and again."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import OrderedDict
from os import PathLike
from pathlib import Path
from typing import Protocol

from kokoro_server.client.values import AudioClip

log = logging.getLogger(__name__)

DEFAULT_BYTES = 64 * 1024 * 1024
SUFFIX = ".clip"


class Cache(Protocol):
    """Must be safe to use from several threads. It may drop a clip at any time."""

    def get(self, key: str) -> AudioClip | None: ...

    def put(self, key: str, clip: AudioClip) -> None: ...


class MemoryCache:
    """Keeps the most recently used clips, up to `max_bytes` of audio, until the program ends."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._clips: OrderedDict[str, AudioClip] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> AudioClip | None:
        with self._lock:
            clip = self._clips.get(key)
            if clip is not None:
                self._clips.move_to_end(key)
            return clip

    def put(self, key: str, clip: AudioClip) -> None:
        with self._lock:
            if replaced := self._clips.pop(key, None):
                self._bytes -= len(replaced.content)
            self._clips[key] = clip
            self._bytes += len(clip.content)
            while self._bytes > self._max_bytes:
                _, oldest = self._clips.popitem(last=False)
                self._bytes -= len(oldest.content)


class FolderCache:
    """Keeps the most recently used clips in a folder, which several programs may share; they outlast the program."""

    def __init__(self, folder: str | PathLike[str], max_bytes: int = DEFAULT_BYTES) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._max_bytes = max_bytes

    def get(self, key: str) -> AudioClip | None:
        path = self._path(key)
        try:
            facts, _, content = path.read_bytes().partition(b"\n")
            clip = AudioClip(content, **json.loads(facts))
            os.utime(path)  # the oldest files are then the least recently used
        except (OSError, ValueError, TypeError):
            return None
        return clip

    def put(self, key: str, clip: AudioClip) -> None:
        facts = json.dumps({"format": clip.format, "voice": clip.voice, "duration": clip.duration})
        unfinished = self._folder / f"{key}.{os.getpid()}.{threading.get_ident()}"
        try:
            unfinished.write_bytes(facts.encode() + b"\n" + clip.content)
            unfinished.replace(self._path(key))
            self._evict()
        except OSError as error:  # the caller still has the clip
            log.warning("clip not kept folder=%s error=%s", self._folder, error)
            unfinished.unlink(missing_ok=True)

    def _evict(self) -> None:
        files: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("*" + SUFFIX):
            with contextlib.suppress(FileNotFoundError):  # another program evicts too
                state = path.stat()
                files.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, key: str) -> Path:
        return self._folder / (key + SUFFIX)
