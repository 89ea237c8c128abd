"""`model.toml` of a model: its name, its languages, its licence and its defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from kokoro_server import languages
from kokoro_server.errors import AssetError
from kokoro_server.languages import Language
from kokoro_server.runtime.json import JsonObject

FILE = "model.toml"
MAX_BYTES = 500_000
MAX_TEXT = 200  # characters of a name
MAX_ENTRIES = 5_000  # of a table
MAX_ENTRY = 50  # characters

# How text of a language becomes phonemes: as for Kokoro v1.0; as for v1.1 (Chinese alone); by espeak-ng; or by the
# table `letters`.
G2PKind = Literal["misaki", "misaki-1.1", "espeak", "table"]
ESPEAK_TOO = (languages.ES, languages.FR, languages.HI, languages.IT, languages.PT_BR)

FIELDS = {"name", "license", "weights", "voice", "url", "languages"}
LANGUAGE_FIELDS = {"letter", "g2p", "symbols", "letters"}
EXAMPLE = 'name = "…", license = "…" and a table [languages.de]'


@dataclass(frozen=True, slots=True, eq=False)
class CardLanguage:
    """How a model reads a language. `symbols` and `letters` replace the longest of their keys that fits."""

    language: Language
    letter: str | None  # with which the names of its voices begin; None: with any
    g2p: G2PKind
    symbols: Mapping[str, str]  # phonemes of G2P, and those of the model that stand for them
    letters: Mapping[str, str]  # for a table


@dataclass(frozen=True, slots=True, eq=False)
class ModelCard:
    name: str
    license: str
    url: str | None
    weights: str | None  # the file, if it is named
    voice: str | None  # that speaks for requests that name none
    languages: tuple[CardLanguage, ...]

    @property
    def spoken(self) -> tuple[Language, ...]:
        return tuple(each.language for each in self.languages)

    def language_of(self, voice: str) -> CardLanguage | None:
        """That of a voice with this name, if there is one."""
        return next((each for each in self.languages if each.letter in (None, voice[:1])), None)


def read(path: Path) -> ModelCard:
    """Raises AssetError that names what is wrong, and what is allowed."""
    if not path.is_file():
        raise AssetError(f"{path}: missing; write one with {EXAMPLE}: docs/guide/models.md shows it")
    if path.stat().st_size > MAX_BYTES:
        raise AssetError(f"{path}: has more than {MAX_BYTES:,} bytes, too many for a description")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise AssetError(f"{path}: cannot be read as TOML ({error!s:.200}); correct it") from error
    try:
        return check(content)
    except ValueError as error:
        raise AssetError(f"{path}: {error}") from None


def check(content: JsonObject) -> ModelCard:
    """Raises ValueError."""
    _only(content, FIELDS, "")
    tables = content.get("languages")
    if not isinstance(tables, dict) or not tables:
        raise ValueError("has no language; add a table such as [languages.de]")
    spoken = tuple(_language(code, table) for code, table in tables.items())
    letters = [each.letter for each in spoken]
    if len(set(letters)) != len(letters) or (None in letters and len(letters) > 1):
        raise ValueError("has languages whose voices cannot be distinguished; give each a `letter` of its own")
    return ModelCard(
        _text(content, "name") or _absent("name"),
        _text(content, "license") or _absent("license"),
        _text(content, "url"),
        _text(content, "weights"),
        _text(content, "voice"),
        spoken,
    )


def _language(code: str, table: object) -> CardLanguage:
    place = f"[languages.{code:.{MAX_ENTRY}}]"
    found = languages.find(code, languages.ALL)
    if found is None:
        known = ", ".join((*(each.code for each in languages.LANGUAGES), *languages.OTHERS))
        raise ValueError(f"{place}: no language of espeak-ng or misaki has this code; use one of {known}")
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table")
    _only(table, LANGUAGE_FIELDS, place)
    own = found in languages.LANGUAGES
    kind = table.get("g2p", "misaki" if own else "espeak")
    if kind not in get_args(G2PKind):
        raise ValueError(f"{place}: g2p is {kind!r:.{MAX_ENTRY}}; use one of {', '.join(get_args(G2PKind))}")
    if (kind == "misaki" and not own) or (kind == "misaki-1.1" and found != languages.ZH):
        raise ValueError(f'{place}: {kind} cannot read {found.name}; use g2p = "espeak" or "table"')
    if kind == "espeak" and own and found not in ESPEAK_TOO:
        raise ValueError(f'{place}: {found.name} is read by misaki alone; use g2p = "misaki" or "table"')
    letters = _replacements(table, "letters", place)
    if (kind == "table") != bool(letters):
        raise ValueError(f'{place}: g2p = "table" and the table `letters` belong together; give both or neither')
    return CardLanguage(found, _letter(table, found, place), kind, _replacements(table, "symbols", place), letters)


def _letter(table: JsonObject, language: Language, place: str) -> str | None:
    own = language.letter if language in languages.LANGUAGES else None
    letter = table.get("letter", own)
    if letter is not None and not (isinstance(letter, str) and len(letter) == 1 and "a" <= letter <= "z"):
        raise ValueError(f"{place}: letter is {letter!r:.{MAX_ENTRY}}; it must be one of a to z, as in df_anna")
    return letter


def _replacements(table: JsonObject, name: str, place: str) -> Mapping[str, str]:
    entries: Any = table.get(name, {})
    if not isinstance(entries, dict) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"{place}: {name} must be a table of at most {MAX_ENTRIES:,} entries")
    for key, value in entries.items():
        if not (key and len(key) <= MAX_ENTRY and isinstance(value, str) and len(value) <= MAX_ENTRY):
            raise ValueError(f'{place}: {name} has {key!r:.{MAX_ENTRY}}; it must be text for text, as in "sch" = "ʃ"')
    return MappingProxyType({key.lower() if name == "letters" else key: value for key, value in entries.items()})


def _text(content: JsonObject, name: str) -> str | None:
    value = content.get(name)
    if value is None:
        return None
    if not (isinstance(value, str) and value.strip() and len(value) <= MAX_TEXT and value.isprintable()):
        raise ValueError(f"{name} is {value!r:.{MAX_ENTRY}}; it must be a line of at most {MAX_TEXT} characters")
    return value


def _absent(name: str) -> str:
    raise ValueError(f'has no {name}; add {name} = "…"')


def _only(content: JsonObject, allowed: set[str], place: str) -> None:
    if unknown := list(_unknown(content, allowed)):
        within = f"{place}: " if place else ""
        raise ValueError(f"{within}unknown: {', '.join(unknown[:5])}; allowed are {', '.join(sorted(allowed))}")


def _unknown(content: JsonObject, allowed: set[str]) -> Iterator[str]:
    return (f"{name:.{MAX_ENTRY}}" for name in content if name not in allowed)
