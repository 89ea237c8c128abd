"""Makes custom voices from definitions and packs: resolves blends of blends, and finds their languages."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Set
from typing import TypeVar

from kokoro_server.errors import BadRequest, InvalidInput
from kokoro_server.languages import EN_US, LANGUAGES
from kokoro_server.voices import CustomVoice, Pack, VoiceInfo, mix
from kokoro_server.voices.custom.definitions import Definition, check_name
from kokoro_server.voices.names import NAME, OPENAI_VOICES, info_of_name

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_DEPTH = 8  # blends of blends of …
FEW = 50  # changes, beyond which it is quicker to make all voices again

_LETTERS = {language.letter for language in LANGUAGES}


class Assembly:
    """`packs` holds None for a pack that cannot be used. Blends that need such a pack are `left_out`.

    `before` is an assembly whose `voices` have been made. What has not changed since is taken from it.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        packs: Mapping[str, Pack | None],
        built_in: Collection[str],
        before: Assembly | None = None,
    ) -> None:
        self._definitions = definitions
        self._packs = packs
        self._built_in = built_in
        self._known = dict.fromkeys((*built_in, *sorted({*packs, *definitions})))
        self._left_out: dict[str, str] = {}
        self._made: dict[str, CustomVoice | None] = {}
        self._depths: dict[str, int] = {}
        if before:
            self._keep_unchanged(before)

    def voices(self) -> dict[str, CustomVoice]:
        """The usable voices by name. Raises BadRequest for a definition that is not valid."""
        for name in self._definitions:
            check_name(name, self._built_in)
            self._check_hyphens(name)
        made = {name: self._make(name, ()) for name in self._known if name not in self._built_in}
        return {name: voice for name, voice in made.items() if voice is not None}

    @property
    def left_out(self) -> list[str]:
        return list(self._left_out.values())

    def _keep_unchanged(self, before: Assembly) -> None:
        stale = self._stale_since(before)
        if len(stale) <= FEW:
            self._left_out = _without(stale, before._left_out)
            self._made = _without(stale, before._made)
            self._depths = _without(stale, before._depths)

    def _stale_since(self, before: Assembly) -> Set[str]:
        """The voices that have changed, and those that are made of them; not all of them, if they are not FEW."""
        names = {*self._definitions, *self._packs, *before._definitions, *before._packs}
        changed = {
            name
            for name in names
            if self._definitions.get(name) != before._definitions.get(name)
            or (name in self._packs) != (name in before._packs)
            or self._packs.get(name) is not before._packs.get(name)
        }
        stale = set(changed)
        while changed and len(stale) <= FEW:
            named = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, changed))})(?![\w.])")
            blends = ((name, definition.voice) for name, definition in self._definitions.items() if name not in stale)
            changed = {name for name, blend in blends if blend and named.search(blend)}
            stale |= changed
        return stale

    def _check_hyphens(self, name: str) -> None:
        parts = name.split("-")
        if len(parts) > 1 and all(part in self._known or part in OPENAI_VOICES for part in parts):
            raise InvalidInput(f"{name!r} would hide the mix of that spelling; choose another name", field="name")

    def _make(self, name: str, above: tuple[str, ...]) -> CustomVoice | None:
        """`above` are the blends that this voice is part of. None if a pack that it needs cannot be used."""
        if name in above:
            raise InvalidInput(f"{name!r} is made of itself: {' of '.join((*above, name))}", field="voice")
        if len(above) > MAX_DEPTH:
            raise _too_deep(above[0])
        if name not in self._made:
            definition = self._definitions.get(name, Definition())
            if definition.voice is None:
                self._made[name] = self._of_pack(name, definition)
            else:
                self._made[name] = self._of_blend(name, definition, definition.voice, above)
        return self._made[name]

    def _of_pack(self, name: str, definition: Definition) -> CustomVoice | None:
        if name not in self._packs:
            raise InvalidInput(f"{name!r} needs a voice, or a pack: {name}.pt or {name}.bin", field="voice")
        pack = self._packs[name]
        return CustomVoice(_info(name, definition, _of_name(name, definition)), pack) if pack is not None else None

    def _of_blend(self, name: str, definition: Definition, blend: str, above: tuple[str, ...]) -> CustomVoice | None:
        if name in self._packs:
            raise InvalidInput(f"{name!r} names both a blend and a pack in the folder; rename one", field="name")
        try:
            parts = mix.parse(blend, self._known)
        except BadRequest as error:
            raise type(error)(f"{name!r}: {error.message}", field="voice") from None
        made = {part: self._make(part, (*above, name)) for part in parts if part not in self._built_in}
        self._depths[name] = 1 + max((self._depths.get(part, 0) for part in made), default=0)
        if self._depths[name] > MAX_DEPTH:
            raise _too_deep(name)
        if broken := [part for part, voice in made.items() if voice is None]:
            self._left_out[name] = f"{name} (made of {', '.join(broken)})"
            return None
        first = next(iter(parts))
        custom = made.get(first)
        spelled = mix.spell(parts)
        return CustomVoice(_info(name, definition, custom.info if custom else info_of_name(first), spelled), spelled)


def _without(names: Set[str], mapping: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in mapping.items() if name not in names}


def _too_deep(name: str) -> InvalidInput:
    return InvalidInput(f"{name!r} is a blend of blends more than {MAX_DEPTH} deep", field="voice")


def _of_name(name: str, definition: Definition) -> VoiceInfo:
    if NAME.fullmatch(name) and name[0] in _LETTERS:
        return info_of_name(name)
    if definition.language is None or definition.gender is None:
        log.info(
            "voice %s: neither its name nor voices.json gives both language and gender; the defaults are %s, female",
            name,
            EN_US.code,
        )
    return VoiceInfo(name, _title(name), EN_US.letter, "female", None)


def _info(name: str, definition: Definition, like: VoiceInfo, blend: str | None = None) -> VoiceInfo:
    title = definition.title or (like.title if like.name == name else _title(name))
    return VoiceInfo(name, title, definition.language or like.language, definition.gender or like.gender, None, blend)


def _title(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").split()).title() or name
