"""The voices by name: Kokoro's, in one folder, and custom ones."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from kokoro_server.config.defaults import speech_defaults
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Style
from kokoro_server.errors import EXHAUSTED, AssetError, Unavailable, UnknownVoice
from kokoro_server.languages import Language
from kokoro_server.voices import levels, mix
from kokoro_server.voices.names import GRADES, NAME, VoiceInfo, info_of_name, resolve
from kokoro_server.voices.packs import SUFFIXES, Pack, read_pack

log = logging.getLogger(__name__)

CACHED_PACKS = 128  # half a megabyte each: enough for all the voices and as many mixes


@dataclass(frozen=True, slots=True, eq=False)
class CustomVoice:
    info: VoiceInfo
    source: Pack | str  # a pack, or a blend of other voices


class CustomVoiceSource(Protocol):
    """Gives the custom voices, which change while the server runs."""

    @property
    def voices(self) -> Mapping[str, CustomVoice]: ...

    async def refresh(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class HeldVoice:
    """A voice or mix as it was when a request named it. Removing the voice does not affect what is spoken with it."""

    name: str  # canonical
    language: str  # Kokoro's letter
    pack: Pack

    def style(self, n_tokens: int) -> Style:
        """The style for a row of `n_tokens` phonemes: line n - 1 of the pack, as `kokoro.KPipeline` takes it."""
        style: Style = self.pack[min(max(n_tokens, 1), MAX_TOKENS) - 1].copy()
        return style


class VoiceSnapshot:
    """An immutable set of voices: Kokoro's, whose `files` are read on first use, and the custom ones.

    Those of other `models` have names that begin with their model's, as in `de-kikiri/df_anna`.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        custom: Mapping[str, CustomVoice],
        before: VoiceSnapshot | None = None,
        models: Mapping[str, VoiceSnapshot] = MappingProxyType({}),
    ) -> None:
        """`before` is a snapshot of the same files. Those that it has read are not read again."""
        self.custom = custom
        self.models = models
        self._files = files
        self._known = dict.fromkeys((*files, *custom))
        self._packs = {name: pack for name, pack in before.packs_in_memory() if name in files} if before else {}
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """Of the model that speaks with them; of Kokoro v1.0 it is empty, as that is described elsewhere."""
        return ""

    def names(self) -> list[str]:
        return [*self._known, *(name for model in self.models.values() for name in model.names())]

    def of_model(self, spec: str) -> VoiceSnapshot | None:
        """The voices of the model that the name of a voice begins with, if it does."""
        model = mix.model_of(spec)
        return None if model is None else self.models.get(model)

    def info(self, name: str) -> VoiceInfo:
        if theirs := self.of_model(name):
            return theirs.info(name)
        name = resolve(name, self._known)
        return self.custom[name].info if name in self.custom else info_of_name(name)

    def canonical(self, spec: str) -> str:
        """One spelling for each voice or mix."""
        if theirs := self.of_model(spec):
            return theirs.canonical(spec)
        return spec if spec in self._known else mix.spell(mix.parse(spec, self._known))

    def language(self, spec: str) -> str:
        """Kokoro's letter for the language of a voice, or of the first voice of a mix."""
        if theirs := self.of_model(spec):
            return theirs.language(spec)
        return self.info(next(iter(mix.parse(spec, self._known)))).language

    def best(self, language: Language) -> str | None:
        """The voice of a language that DEFAULT_VOICE names, else the one with the best grade, if any speaks it."""
        return self._named(language) or next(iter(self.ranked(language)), None)

    def ranked(self, language: Language) -> list[str]:
        """All voices of a language: the one that DEFAULT_VOICE names, then by grade, then those without one."""
        names = [name for name in self._known if self.info(name).language == language.letter]
        named = self._named(language)
        first = [self.canonical(named)] if named else []
        return [name for name in dict.fromkeys((*first, *GRADES, *names)) if name in names]

    def _named(self, language: Language) -> str | None:
        named = speech_defaults.get().voice(language.code)
        try:
            return named if self.language(named) == language.letter else None
        except UnknownVoice:
            return None  # its file is gone

    def gain(self, spec: str) -> float:
        """dB, that bring a voice or mix to the level of all. That of a custom pack is estimated."""
        if theirs := self.of_model(spec):
            return theirs.gain(spec)
        parts = mix.parse(spec, self._known)
        added = {name: weight for name, weight in parts.items() if weight > 0}
        return sum(self._gain(name) * weight for name, weight in added.items()) / sum(added.values())

    def _gain(self, name: str) -> float:
        custom = self.custom.get(name)
        if custom is None:
            return levels.GAINS.get(name, 0.0)
        return self.gain(custom.source) if isinstance(custom.source, str) else levels.estimated_gain(custom.source)

    def cached(self, canonical: str) -> Pack | None:
        """The styles of a voice or mix if they are in memory."""
        if theirs := self.of_model(canonical):
            return theirs.cached(canonical)
        custom = self.custom.get(canonical)
        if custom is not None and not isinstance(custom.source, str):
            return custom.source
        return self._packs.get(canonical)

    def packs_in_memory(self) -> list[tuple[str, Pack]]:
        with self._lock:
            return list(self._packs.items())

    def pack(self, canonical: str) -> Pack:
        """The styles of a voice or mix, read-only."""
        if theirs := self.of_model(canonical):
            return theirs.pack(canonical)
        pack = self.cached(canonical)
        if pack is None:
            pack = self._load(canonical)
            with self._lock:
                while len(self._packs) >= CACHED_PACKS:
                    del self._packs[next(iter(self._packs))]
                pack = self._packs.setdefault(canonical, pack)
        return pack

    def _load(self, canonical: str) -> Pack:
        if canonical in self.custom:
            return self.pack(self.canonical(str(self.custom[canonical].source)))
        if canonical in self._files:
            return _read(self._files[canonical])
        parts = mix.parse(canonical, self._known)
        total = sum(map(abs, parts.values()))
        mixed = np.zeros((MAX_TOKENS, STYLE_DIM), np.float64)
        for name, weight in parts.items():
            mixed += self.pack(name).astype(np.float64) * (weight / total)
        pack = mixed.astype(np.float32)
        pack.flags.writeable = False
        return pack


class VoiceBook:
    """The voices of one folder, `.bin` and `.pt` packs, and the present custom ones."""

    def __init__(self, folder: Path, models: Mapping[str, VoiceSnapshot] = MappingProxyType({})) -> None:
        """`models`: the voices of other models."""
        self.folder = folder
        self._files = _find(folder)
        self._models = models
        self._voices = VoiceSnapshot(self._files, {}, models=models)
        self._source: CustomVoiceSource | None = None

    @classmethod
    def fixed(cls, voices: VoiceSnapshot) -> VoiceBook:
        """Of voices that do not change."""
        book = cls.__new__(cls)
        book.folder, book._files, book._models, book._voices, book._source = Path(), {}, {}, voices, None
        return book

    def attach(self, source: CustomVoiceSource) -> None:
        self._source = source

    @property
    def now(self) -> VoiceSnapshot:
        """The present voices, for several questions between which nothing may change."""
        if self._source and self._source.voices is not self._voices.custom:
            self._voices = VoiceSnapshot(self._files, self._source.voices, before=self._voices, models=self._models)
        return self._voices

    def built_in(self) -> list[str]:
        """Kokoro's voices, without the custom ones."""
        return list(self._files)

    def names(self) -> list[str]:
        return self.now.names()

    def info(self, name: str) -> VoiceInfo:
        return self.now.info(name)

    def canonical(self, spec: str) -> str:
        """One spelling for each voice or mix: see `mix.spell`."""
        return self.now.canonical(spec)

    def language(self, spec: str) -> str:
        return self.now.language(spec)

    def pack(self, spec: str) -> Pack:
        voices = self.now
        return voices.pack(voices.canonical(spec))

    def style(self, spec: str, n_tokens: int) -> Style:
        voices = self.now
        name = voices.canonical(spec)
        return HeldVoice(name, voices.language(name), voices.pack(name)).style(n_tokens)

    def held(self, custom: Mapping[str, CustomVoice] | None = None) -> VoiceBook:
        """The present voices, which then do not change. `custom` takes the place of the custom ones."""
        book = copy.copy(self)
        book._source = None
        book._voices = self.now if custom is None else VoiceSnapshot(self._files, custom, models=self._models)
        return book

    async def refresh(self) -> None:
        """Look for changes of the custom voices."""
        if self._source:
            await self._source.refresh()

    async def hold(self, spec: str) -> HeldVoice:
        """A voice or mix to speak with. Looks for changes if it is unknown: another process may just have made it."""
        voices = self.now
        try:
            name = voices.canonical(spec)
        except UnknownVoice:
            if not self._source:
                raise
            await self._source.refresh()
            voices = self.now
            name = voices.canonical(spec)
        pack = voices.cached(name)
        if pack is None:
            pack = await asyncio.to_thread(voices.pack, name)
        return HeldVoice(name, voices.language(name), pack)


def _find(folder: Path) -> dict[str, Path]:
    files = sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES)
    for path in files:
        if not NAME.fullmatch(path.stem):
            log.warning("voice left out file=%s: names are a language letter, f or m, '_' and a name", path.name)
    found = {path.stem: path for path in files if NAME.fullmatch(path.stem)}
    if not found:
        raise AssetError(f"{folder}: holds no voices (*.bin, *.pt); run 'kokoro-server assets fetch'")
    return found


def _read(path: Path) -> Pack:
    """The pack of a voice. Raises an error that says what to do."""
    try:
        return read_pack(path)
    except AssetError as error:
        raise AssetError(f"{error.message}; fetch it again") from error
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise Unavailable(f"the voice {path.stem} cannot be read now: {error.strerror}", retry_after=1) from error
        raise AssetError(f"{path}: cannot be read: {error}") from error
