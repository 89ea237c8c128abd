"""The present custom voices: read from VOICES_PATH, read again when it changes, and changed by requests."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kokoro_server import languages
from kokoro_server.assets import files
from kokoro_server.assets.catalog import CATALOG
from kokoro_server.assets.models.folder import ModelShelf, scan
from kokoro_server.config.settings import Settings
from kokoro_server.errors import (
    EXHAUSTED,
    BadRequest,
    ConfigError,
    Conflict,
    Forbidden,
    KokoroError,
    NoSuchVoice,
    TooBusy,
    Unavailable,
)
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.threads import in_daemon_thread
from kokoro_server.voices import CustomVoice, VoiceSnapshot, mix
from kokoro_server.voices.custom import definitions
from kokoro_server.voices.custom.assembly import Assembly
from kokoro_server.voices.custom.files import CustomVoiceFiles, FileVersion, PackFile
from kokoro_server.voices.custom.owners import VoiceEditor, owner_of
from kokoro_server.voices.of_model import ModelVoices, of_other_models

log = logging.getLogger(__name__)

CHECK_EVERY = 1.0  # seconds
PATIENCE = 1.0  # seconds that a request waits for a slow disk
LOCK_TIMEOUT = 10.0  # seconds to wait for another process or request that changes the file
MAX_WAITING = 32  # requests that wait to change the file
MAX_NAMED = 3  # files that one message names
RETRY_AFTER = 30.0  # seconds, in which someone may have made room
PASSING = (errno.ENOSPC, errno.EDQUOT, *EXHAUSTED)


class CustomVoices:
    """Only `refresh`, `define` and `remove` read or write files, and they do so in threads.

    While the JSON file is broken, its last good version stays in use. A damaged pack affects no other voice.
    """

    def __init__(self, path: Path, built_in: Collection[str]) -> None:
        """Raises ConfigError if the path does not exist or the JSON file is broken."""
        self.condition = Condition(Reason.VOICES)
        self.voices: Mapping[str, CustomVoice] = {}
        self._path = path
        self._built_in = built_in
        self._files = CustomVoiceFiles(path, built_in)
        self._lock = threading.Lock()
        self._versions: dict[Path, FileVersion] | None = None  # None: read again even if nothing has changed
        self._packs: dict[str, PackFile] = {}
        self._entries: Mapping[str, Any] = {}  # of the present voices
        self._assembled: Assembly | None = None
        self._fault: Exception | None = None  # why the files could not be read last time
        self._turn = asyncio.Lock()  # to change the file
        self._waiting = 0
        self._refreshing: asyncio.Task[None] | None = None
        try:
            self._load(self._files.versions())
        except FileNotFoundError as error:
            raise ConfigError(f"VOICES_PATH={path}: there is no such folder or file; create it") from error
        except (OSError, ValueError, BadRequest) as error:
            raise ConfigError(f"VOICES_PATH={path}: {error}") from error

    async def watch(self) -> None:
        """Look for changes every second until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            await self.refresh()

    async def refresh(self) -> None:
        """Look for changes. Concurrent calls share one look, which begins after the calls."""
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
            self._fault = error
            if isinstance(error, OSError):  # the disk may come back with unchanged versions
                self._versions = None
            self.condition.set(f"VOICES_PATH is broken, and its last good version stays in use: {error}")
        except Exception:
            log.exception("the voices of VOICES_PATH could not be read")

    def _load(self, versions: dict[Path, FileVersion]) -> None:
        self._versions = versions  # first: a broken file is not read again before it changes
        packs, rejected = self._files.packs(versions, self._packs)
        entries = self._files.entries()
        assembly = self._assembly(entries, packs)
        self.voices = assembly.voices()
        self._packs, self._entries, self._assembled, self._fault = packs, entries, assembly, None
        if any(file.again for file in packs.values()):
            self._versions = None
        troubles = [*(file.trouble for file in packs.values() if file.trouble), *rejected, *assembly.left_out]
        if troubles:
            more = f"; and {len(troubles) - MAX_NAMED} more" if len(troubles) > MAX_NAMED else ""
            self.condition.set(f"some voices of VOICES_PATH cannot be used: {'; '.join(troubles[:MAX_NAMED])}{more}")
        else:
            self.condition.clear()
        log.info("custom voices loaded path=%s voices=%d", self._path, len(self.voices))

    def _assembly(self, entries: Mapping[str, Any], packs: Mapping[str, PackFile]) -> Assembly:
        usable = {name: file.pack for name, file in packs.items()}
        return Assembly(definitions.parse(entries), usable, self._built_in, self._assembled)

    async def define(self, name: str, fields: Mapping[str, str], editor: VoiceEditor) -> None:
        """Write a voice into the file; it replaces one of the same name. Raises BadRequest if it is not valid.

        Raises Forbidden if the editor may not change it, and Conflict if the editor has too many voices.
        """
        await self._in_turn(lambda: self._define(name, fields, editor))

    async def remove(self, name: str, editor: VoiceEditor) -> None:
        """Raises NoSuchVoice, Forbidden if the editor may not, or Conflict if other voices are made of it."""
        await self._in_turn(lambda: self._remove(name, editor))

    async def _in_turn(self, change: Callable[[], None]) -> None:
        """Make one change at a time, each to its end: however many requests wait or leave, they take one thread."""
        if self._waiting >= MAX_WAITING:
            raise TooBusy("too many requests change the voices at once", retry_after=1)
        self._waiting += 1

        async def changed() -> None:
            try:
                async with asyncio.timeout(LOCK_TIMEOUT):
                    await self._turn.acquire()
            except TimeoutError:
                raise Unavailable("the voices are being changed by other requests", retry_after=1) from None
            finally:
                self._waiting -= 1
            try:
                await in_daemon_thread(change)
            finally:
                self._turn.release()

        change_made = asyncio.create_task(changed())
        change_made.add_done_callback(lambda task: task.cancelled() or task.exception())  # its request may have left
        await asyncio.shield(change_made)

    def _define(self, name: str, fields: Mapping[str, str], editor: VoiceEditor) -> None:
        with self._changing() as entries:
            editor.check_change(name, entries)
            if name not in entries:
                editor.check_room(entries)
            owner = owner_of(entries[name]) if name in entries else editor.name
            entries[name] = {**fields, "owner": owner} if owner else dict(fields)
            self._assembly(entries, self._packs).voices()
        log.info("voice defined name=%s voice=%s", name, fields["voice"])

    def _remove(self, name: str, editor: VoiceEditor) -> None:
        with self._changing() as entries:
            editor.check_change(name, entries)
            if name in self._packs:
                raise Conflict(f"{name!r} is a file in VOICES_PATH; delete it there")
            if name not in entries:
                raise NoSuchVoice(f"no custom voice is called {name[:80]!r}", field="name")
            del entries[name]
            try:
                self._assembly(entries, self._packs).voices()
            except BadRequest as error:
                raise Conflict(f"{name!r} is in use: {error.message}") from None
        log.info("voice removed name=%s", name)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The entries of the file, to be changed. They are written at the end unless an error is raised."""
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
            if error.errno in PASSING:
                raise Unavailable(reason, retry_after=RETRY_AFTER) from error
            raise Forbidden(reason) from error

    def _sound_entries(self) -> dict[str, Any]:
        self._load_if_changed()
        if isinstance(self._fault, OSError):
            raise self._fault
        if self._fault:
            raise Conflict(f"the file of voices is broken and must be mended first: {self._fault}")
        return dict(self._entries)


def catalogued(settings: Settings, shelf: ModelShelf | None = None) -> VoiceSnapshot:
    """Names and languages of all voices, those of Kokoro-82M v1.0 whether or not they have been fetched."""
    built_in = dict.fromkeys(sorted(CATALOG.voices), settings.cache_dir)
    custom = CustomVoices(settings.voices_path, built_in).voices if settings.voices_path else {}
    models = (shelf or _shelf(settings)).models
    return VoiceSnapshot(built_in, custom, models={name: ModelVoices(model) for name, model in models.items()})


def _shelf(settings: Settings) -> ModelShelf:
    return scan(settings.models_path) if settings.models_path else ModelShelf()


def check_defaults(settings: Settings) -> None:
    """Raises ConfigError for a wrong DEFAULT_VOICE or DEFAULT_LANGUAGE, and if MODELS_PATH is no folder."""
    shelf = _shelf(settings)
    language = of_other_models(settings.default_language)
    spoken = dict.fromkeys((*languages.LANGUAGES, *(each for it in shelf.models.values() for each in it.card.spoken)))
    if language and language not in spoken:
        raise ConfigError(
            f"DEFAULT_LANGUAGE: no model here speaks {language.name}; use auto or one of "
            f"{languages.known_codes(spoken)}, or add a model that does to MODELS_PATH"
        )
    voices = catalogued(settings, shelf)
    for code, spec in settings.default_voice:
        model = mix.model_of(spec) or ""
        if model in shelf.broken:
            raise ConfigError(f"DEFAULT_VOICE: the model {model} cannot be used: {shelf.broken[model]}")
        try:
            voices.canonical(spec)
            if code:
                languages.parse(code, shelf.models[model].card.spoken if model in shelf.models else languages.LANGUAGES)
        except KokoroError as error:
            message = error.message.replace("GET /voices", "'kokoro-server voices'")
            raise ConfigError(f"DEFAULT_VOICE: {message}") from None
