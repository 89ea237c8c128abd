"""The user's voices as they are now: read from VOICES_PATH, read again when it changes, and changed by requests."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kokoro_server.assets import files
from kokoro_server.assets.catalog import CATALOG
from kokoro_server.config.settings import Settings
from kokoro_server.errors import BadRequest, ConfigError, Conflict, Forbidden, NoSuchVoice, Unavailable
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.threads import in_daemon_thread
from kokoro_server.voices import CustomVoice, VoiceSnapshot
from kokoro_server.voices.custom import definitions
from kokoro_server.voices.custom.assembly import Assembly
from kokoro_server.voices.custom.files import FileVersion, PackFile, VoiceFiles

log = logging.getLogger(__name__)

CHECK_EVERY = 1.0  # seconds
PATIENCE = 1.0  # seconds that a request waits for the disk
LOCK_TIMEOUT = 10.0  # seconds for another process that changes the file
MAX_TOLD = 3  # files that are told of at once
RETRY_AFTER = 30.0  # seconds, in which someone may have made room on a full disk
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class CustomVoices:
    """Nothing but `refresh`, `define` and `remove` waits for the disk, and these do so in threads.

    A new version of the JSON file that is broken is not used. A pack that is damaged costs only itself.
    """

    def __init__(self, path: Path, built_in: Collection[str]) -> None:
        """Raises ConfigError if the path is not there, or the JSON file is broken."""
        self.condition = Condition(Reason.VOICES)
        self.voices: Mapping[str, CustomVoice] = {}
        self._path = path
        self._built_in = built_in
        self._files = VoiceFiles(path, built_in)
        self._lock = threading.Lock()
        self._versions: dict[Path, FileVersion] | None = None  # None: to be read again, changed or not
        self._packs: dict[str, PackFile] = {}
        self._refreshing: asyncio.Task[None] | None = None
        try:
            self._load(self._files.versions())
        except (OSError, ValueError, BadRequest) as error:
            raise ConfigError(f"VOICES_PATH={path}: {error}") from error

    async def watch(self) -> None:
        """Look for changes from time to time, for ever."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            await self.refresh()

    async def refresh(self) -> None:
        """Look for changes. Those who ask at once share a look that begins after they asked."""
        if self._refreshing and not self._refreshing.done():
            await asyncio.wait({self._refreshing}, timeout=PATIENCE)
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(in_daemon_thread(self._check))
        await asyncio.wait({self._refreshing}, timeout=PATIENCE)

    def _check(self) -> None:
        with self._lock:
            self._load_if_changed()

    def _load_if_changed(self) -> None:
        try:
            versions = self._files.versions()
            if versions != self._versions:
                self._load(versions)
        except (OSError, ValueError, BadRequest) as error:
            if isinstance(error, OSError):  # the disk, which may come back with nothing changed
                self._versions = None
            self.condition.set(f"VOICES_PATH is broken, and its last good version stays in use: {error}")
        except Exception:
            log.exception("the voices of VOICES_PATH could not be read")

    def _load(self, versions: dict[Path, FileVersion]) -> None:
        self._versions = versions  # first, so that what is broken is not read again before it changes
        packs, rejected = self._files.packs(versions, self._packs)
        assembly = self._assembly(self._files.entries(), packs)
        self.voices = assembly.voices()
        self._packs = packs
        troubles = [*(file.trouble for file in packs.values() if file.trouble), *rejected, *assembly.left_out]
        if troubles:
            more = f"; and {len(troubles) - MAX_TOLD} more" if len(troubles) > MAX_TOLD else ""
            self.condition.set(f"of VOICES_PATH some cannot be used: {'; '.join(troubles[:MAX_TOLD])}{more}")
        else:
            self.condition.clear()
        log.info("own voices loaded path=%s voices=%d", self._path, len(self.voices))

    def _assembly(self, entries: Mapping[str, Any], packs: Mapping[str, PackFile]) -> Assembly:
        usable = {name: file.pack for name, file in packs.items()}
        return Assembly(definitions.parse(entries), usable, self._built_in)

    async def define(self, name: str, fields: Mapping[str, str]) -> None:
        """Write a voice into the file, in place of one of that name. Raises BadRequest for what is none."""
        await in_daemon_thread(lambda: self._define(name, fields))

    async def remove(self, name: str) -> None:
        """Raises NoSuchVoice, or Conflict if others are made of it."""
        await in_daemon_thread(lambda: self._remove(name))

    def _define(self, name: str, fields: Mapping[str, str]) -> None:
        with self._changing() as entries:
            entries[name] = fields["voice"] if set(fields) == {"voice"} else dict(fields)
            self._assembly(entries, self._packs).voices()
        log.info("voice defined name=%s voice=%s", name, fields["voice"])

    def _remove(self, name: str) -> None:
        with self._changing() as entries:
            if name in self._packs:
                raise Conflict(f"{name!r} is a file in VOICES_PATH; delete it there")
            if name not in entries:
                raise NoSuchVoice(f"there is no voice {name[:80]!r} that could be removed", field="name")
            del entries[name]
            try:
                self._assembly(entries, self._packs).voices()
            except BadRequest as error:
                raise Conflict(f"{name!r} is in use: {error.message}") from None
        log.info("voice removed name=%s", name)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The entries of the file, to be changed. They are written at the end, unless there is an error."""
        path = self._files.definitions.resolve()
        try:
            with FileLock(path.with_name(f".{path.name}.lock"), timeout=LOCK_TIMEOUT), self._lock:
                entries = self._sound_entries()
                yield entries
                files.atomic_write(path, definitions.written(entries))
                self._load(self._files.versions())
        except Timeout as error:
            raise Unavailable(f"{path.name} is being changed by another process", retry_after=1) from error
        except OSError as error:
            log.warning("cannot change %s: %s", path, error)
            reason = f"the file of voices cannot be written: {error.strerror or type(error).__name__}"
            if error.errno in NO_SPACE:
                raise Unavailable(reason, retry_after=RETRY_AFTER) from error
            raise Forbidden(reason) from error

    def _sound_entries(self) -> dict[str, Any]:
        self._load_if_changed()
        try:
            entries = self._files.entries()
            self._assembly(entries, self._packs).voices()
        except (ValueError, BadRequest) as error:
            raise Conflict(f"the file of voices is broken and must be mended first: {error}") from error
        return entries


def catalogued(settings: Settings) -> VoiceSnapshot:
    """The names and languages of Kokoro-82M v1.0's voices, whether or not they have been fetched, and of one's own."""
    built_in = dict.fromkeys(sorted(CATALOG.voices), settings.cache_dir)
    own = CustomVoices(settings.voices_path, built_in).voices if settings.voices_path else {}
    return VoiceSnapshot(built_in, own)
