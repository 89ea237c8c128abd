"""The voices that can be asked for by name: Kokoro's, in one folder, and the user's own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Style
from kokoro_server.errors import AssetError, UnknownVoice
from kokoro_server.voices import mix
from kokoro_server.voices.names import NAME, VoiceInfo, info_of_name, resolve
from kokoro_server.voices.packs import SUFFIXES, Pack, read_pack

log = logging.getLogger(__name__)

CACHED_PACKS = 128  # half a megabyte each: enough for all the voices and as many mixes


@dataclass(frozen=True, slots=True, eq=False)
class CustomVoice:
    """A voice of the user's: a pack, or a blend of other voices."""

    info: VoiceInfo
    source: Pack | str


class CustomVoiceSource(Protocol):
    """Where the user's voices come from. They change."""

    @property
    def voices(self) -> Mapping[str, CustomVoice]: ...

    async def refresh(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class HeldVoice:
    """A voice or mix as it was when it was asked for. What is spoken with it does not notice if it is removed."""

    name: str  # canonical
    language: str  # Kokoro's letter
    pack: Pack

    def style(self, n_tokens: int) -> Style:
        """The style for an utterance of `n_tokens` phonemes: row n - 1 of the pack, as KPipeline takes it."""
        style: Style = self.pack[min(max(n_tokens, 1), MAX_TOKENS) - 1].copy()
        return style


class VoiceSnapshot:
    """Kokoro's voices, in `files` that are read when first asked for, and the user's. They never change."""

    def __init__(self, files: Mapping[str, Path], own: Mapping[str, CustomVoice]) -> None:
        self.own = own
        self._files = files
        self._known = dict.fromkeys((*files, *own))
        self._packs: dict[str, Pack] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        return list(self._known)

    def info(self, name: str) -> VoiceInfo:
        name = resolve(name, self._known)
        return self.own[name].info if name in self.own else info_of_name(name)

    def canonical(self, spec: str) -> str:
        """One spelling for each voice or mix."""
        return spec if spec in self._known else mix.spell(mix.parse(spec, self._known))

    def language(self, spec: str) -> str:
        """Kokoro's letter for the language of a voice, or of the first voice of a mix."""
        return self.info(next(iter(mix.parse(spec, self._known)))).language

    def cached(self, canonical: str) -> Pack | None:
        """The styles of a voice or mix, unless it takes time to get them."""
        own = self.own.get(canonical)
        if own is not None and not isinstance(own.source, str):
            return own.source
        return self._packs.get(canonical)

    def pack(self, canonical: str) -> Pack:
        """The styles of a voice or mix, read-only."""
        pack = self.cached(canonical)
        if pack is None:
            pack = self._load(canonical)
            with self._lock:
                while len(self._packs) >= CACHED_PACKS:
                    del self._packs[next(iter(self._packs))]
                pack = self._packs.setdefault(canonical, pack)
        return pack

    def _load(self, canonical: str) -> Pack:
        if canonical in self.own:
            return self.pack(self.canonical(str(self.own[canonical].source)))
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
    """The voices of one folder, raw `.bin` and `.pt` packs, and the user's as they are now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = _find(folder)
        self._voices = VoiceSnapshot(self._files, {})
        self._source: CustomVoiceSource | None = None

    def attach(self, source: CustomVoiceSource) -> None:
        """Take the user's voices from here."""
        self._source = source

    @property
    def now(self) -> VoiceSnapshot:
        """The present voices, for questions that must not see a change between them."""
        if self._source and self._source.voices is not self._voices.own:
            self._voices = VoiceSnapshot(self._files, self._source.voices)
        return self._voices

    def built_in(self) -> list[str]:
        """Kokoro's, without the user's."""
        return list(self._files)

    def names(self) -> list[str]:
        return self.now.names()

    def info(self, name: str) -> VoiceInfo:
        return self.now.info(name)

    def canonical(self, spec: str) -> str:
        """One spelling for each voice or mix: whole-number weights in lowest terms, in the order they were given."""
        return self.now.canonical(spec)

    def language(self, spec: str) -> str:
        """Kokoro's letter for the language of a voice, or of the first voice of a mix."""
        return self.now.language(spec)

    def pack(self, spec: str) -> Pack:
        """The styles of a voice or mix, read-only."""
        voices = self.now
        return voices.pack(voices.canonical(spec))

    def style(self, spec: str, n_tokens: int) -> Style:
        """The style for an utterance of `n_tokens` phonemes."""
        voices = self.now
        name = voices.canonical(spec)
        return HeldVoice(name, voices.language(name), voices.pack(name)).style(n_tokens)

    async def refresh(self) -> None:
        """See what has changed among the user's voices."""
        if self._source:
            await self._source.refresh()

    async def hold(self, spec: str) -> HeldVoice:
        """A voice or mix to speak with. One that is unknown may have been made by another process just now."""
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
        raise AssetError(f"{folder}: no voices (*.bin, *.pt) there; run 'kokoro-server assets fetch'")
    return found


def _read(path: Path) -> Pack:
    try:
        return read_pack(path)
    except AssetError as error:
        raise AssetError(f"{error.message}; fetch it again") from error
