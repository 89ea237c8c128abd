"""`voices.json`: for each name a blend of other voices, or facts about a pack.

    {
      "narrator": "af_bella(2)+bm_george(1)",
      "aura-2-helena-en": {"voice": "af_heart", "language": "en-GB", "title": "Helena"},
      "granny": {"language": "en-US", "gender": "female"},
      "pirate": {"voice": "am_fenrir", "owner": "alice"}
    }

`granny` describes a pack beside the file, `granny.pt` or `granny.bin`. `pirate` was defined by a request: see `owners`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_server import languages
from kokoro_server.errors import BadRequest, InvalidInput
from kokoro_server.voices import Gender

MAX_BYTES = 4_000_000  # of the file: more than MAX_DEFINITIONS of the greatest length
MAX_DEFINITIONS = 1000
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"  # ASCII, as HTTP headers carry it
NAMES = "a name has letters, digits, '_', '.' and '-', at most 64, and begins with a letter or digit"
FIELDS = ("voice", "language", "gender", "title", "owner")
GENDERS: Mapping[str, Gender] = {"female": "female", "male": "male"}
MAX_TITLE = 100  # characters
MAX_BLEND = 500
MAX_OWNER = 100


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry. A fact that is None comes from the first voice of the blend, or from the name of the pack."""

    voice: str | None = None  # a voice or blend; None: a pack
    language: str | None = None  # Kokoro's letter
    gender: Gender | None = None
    title: str | None = None


def read(path: Path) -> dict[str, Any]:
    """The entries as written; empty without a file. Raises OSError, ValueError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    if len(content) > MAX_BYTES:
        raise ValueError(f"has more than {MAX_BYTES:,} bytes")
    try:
        entries = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_repetition)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(entries, dict):
        raise ValueError('must be an object such as {"narrator": "af_bella(2)+af_sky(1)"}')
    return entries


def written(entries: Mapping[str, Any]) -> bytes:
    return (json.dumps(entries, indent=2, ensure_ascii=False) + "\n").encode()


def parse(entries: Mapping[str, Any]) -> dict[str, Definition]:
    """Raises BadRequest, with the field at fault, for an entry that is not valid whatever the other entries are."""
    if len(entries) > MAX_DEFINITIONS:
        raise InvalidInput(f"{len(entries)} custom voices; at most {MAX_DEFINITIONS} are allowed", field="name")
    return {name: _parse(name, entry) for name, entry in entries.items()}


def check_name(name: str, built_in: Collection[str]) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidInput(f"{name[:80]!r}: {NAMES}", field="name")
    if name in built_in:
        raise InvalidInput(f"{name!r} is one of the model's own voices; choose another name", field="name")


def _parse(name: str, entry: object) -> Definition:
    fields = {"voice": entry} if isinstance(entry, str) else entry
    if not isinstance(fields, dict):
        raise InvalidInput(f"{name!r}: must be a blend, or an object with {', '.join(FIELDS)}", field="voice")
    for field, value in fields.items():
        if field not in FIELDS:
            raise InvalidInput(f"{name!r}: unknown field {field!r}; allowed: {', '.join(FIELDS)}", field=field)
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{name!r}: {field} must be text", field=field)
    if len(fields.get("voice", "")) > MAX_BLEND:
        raise InvalidInput(f"{name!r}: voice has more than {MAX_BLEND} characters", field="voice")
    gender, title = fields.get("gender"), fields.get("title")
    if gender is not None and gender not in GENDERS:
        raise InvalidInput(f"{name!r}: gender must be female or male, not {gender[:40]!r}", field="gender")
    if title is not None and (len(title) > MAX_TITLE or not title.isprintable()):
        raise InvalidInput(f"{name!r}: title must be one line of at most {MAX_TITLE} characters", field="title")
    if len(fields.get("owner", "")) > MAX_OWNER:
        raise InvalidInput(f"{name!r}: owner has more than {MAX_OWNER} characters", field="owner")
    return Definition(fields.get("voice"), _letter(name, fields.get("language")), gender and GENDERS[gender], title)


def _letter(name: str, language: str | None) -> str | None:
    try:
        return languages.parse(language).letter if language else None
    except BadRequest as error:
        raise type(error)(f"{name!r}: {error.message}", field="language") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} occurs twice")
        found[name] = value
    return found
