"""Words of the languages, read from data/*.toml: units, currencies, titles, abbreviations, signs.

A file has sections of entries, one entry a line, and the tables [lists] and [patterns] of arrays, one word a line. An
entry is the words that are said, or a table with those words and options. Loading a file checks the whole file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import regex

DATA = Path(__file__).parent / "data"
_PACKAGE = DATA.parents[2]
_CURRENCY: dict[str, type] = {"one": str, "many": str, "cent": str, "cents": str}
# Sections whose entries may be tables, with the type of each key. The first key holds the words, and is required.
_OPTIONS: dict[str, dict[str, type]] = {
    "abbreviations": {"say": str, "bare": bool, "inside": bool, "after": str, "before": str},
    "before_numbers": {"say": str, "bare": bool, "letters": bool},
    "chat": {"say": str, "among": bool, "caps": bool},
    "coins": _CURRENCY,
    "counters": {"say": str, "row": str, "three": str, "ones": dict, "whole": dict},
    "currencies": {**_CURRENCY, "after": bool},
    "currencies_after": _CURRENCY,
    "currency_codes": _CURRENCY,
    "magnitudes": {"one": str, "many": str, "of": bool},
    "states": {"say": str, "word": bool},
    "streets": {"say": str, "bare": bool},
    "titles": {"say": str, "bare": bool},
    "units": {"one": str, "many": str, "time": bool, "dotted": bool, "whole": bool},
}
_PLAIN = frozenset(
    "acronyms address_marks address_parts bible_books compass cubic_units directions durations english_numbers greek "
    "latex_accents latex_commands latex_signs letters lone_signs long_states name_parts numbers operators per_time "
    "phrases powers prefixed_currencies program_languages rates scales short_months signs slashed square_units "
    "suffixes unit_marks unit_signs weekdays".split()
)
_SILENT = frozenset("latex_commands phrases signs".split())  # sections in which an entry may be empty
_ARRAYS = {
    "lists": frozenset(
        "address_words after_it after_led after_per after_sat after_slash after_us after_who before_us elements "
        "everyday_plurals file_extensions first_names first_person first_person_rest headline_acronyms ingredients "
        "initials labels latex_text loanwords misread_counters months not_after_money not_after_units not_numerals "
        "not_rulers not_streets numbered_events only_i pronouns royal_titles rulers saints short_words small_words "
        "spelled time_zones top_level_domains two_letters".split()
    ),
    "patterns": frozenset(
        "after_scores before_dates before_phones before_times books centuries counted feminine feminine_endings "
        "hours_mark masculine measures numbered_names numeral_endings ordinal_endings phones queens".split()
    ),
}
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


class Noun(NamedTuple):
    one: str
    many: str


class Currency(NamedTuple):
    unit: Noun
    cent: Noun | None = None


@dataclass(frozen=True, slots=True)
class Phrases:
    """The section [phrases] of a language that has a table: every field is required."""

    comma: str  # in a number
    point: str
    to: str  # 5-10
    by: str  # 3 x 4 m
    ratio: str  # 3:1
    over: str  # 8/10
    score: str  # `x` between the goals of two teams; empty where it is not written so
    cents: str  # between the amount and the cents; may be empty
    of_date: str  # between day, month and year: 5 *de* mayo; may be empty
    first_day: str  # of a month
    of: str  # between a magnitude and a noun: a million *de* euros; may be empty
    per: str  # `{}` is the unit
    with_fraction: str  # 2 1/3: two *and* a third
    degree: str
    degrees: str
    square: str  # `{}` is the unit
    squares: str
    cubic: str
    cubics: str
    hashtag: str
    code_block: str


class _Problem(NamedTuple):
    section: str
    key: str  # of an entry or an array; may be empty
    problem: str
    at: int = -1  # the index of a word in an array


class VocabularyError(ValueError):
    """A file of words is wrong. Each line of the message names a file, a line and an entry."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of one file."""

    sections: Mapping[str, Mapping[str, Any]]

    def words(self, section: str) -> dict[str, str]:
        """The words to say, by entry."""
        entries = self.sections.get(section, {})
        return {key: entry if isinstance(entry, str) else entry["say"] for key, entry in entries.items()}

    def having(self, section: str, option: str) -> list[str]:
        """The entries for which `option` is true."""
        entries = self.sections.get(section, {})
        return [key for key, entry in entries.items() if not isinstance(entry, str) and entry.get(option)]

    def option(self, section: str, option: str) -> dict[str, str]:
        """The entries that have `option`, with its value."""
        entries = self.sections.get(section, {})
        return {key: entry[option] for key, entry in entries.items() if option in entry and not isinstance(entry, str)}

    def nouns(self, section: str, plural: Callable[[str], str]) -> dict[str, Noun]:
        """`plural` makes the plural of an entry that names none."""
        return {key: _noun(entry, plural) for key, entry in self.sections.get(section, {}).items()}

    def currencies(self, section: str, plural: Callable[[str], str]) -> dict[str, Currency]:
        entries = self.sections.get(section, {}).items()
        return {key: Currency(_noun(entry, plural), _noun(entry, plural, "cent", "cents")) for key, entry in entries}

    def list(self, name: str) -> list[str]:
        return list(self.sections.get("lists", {}).get(name, ()))

    def pattern(self, name: str) -> str:
        """One of the patterns of an array; without the array, one that never matches."""
        return "|".join(self.sections["patterns"].get(name, ("(?!)",)))


def _noun(entry: Any, plural: Callable[[str], str], one: str = "one", many: str = "many") -> Any:
    if isinstance(entry, str):
        return Noun(entry, plural(entry)) if one == "one" else None
    return Noun(entry[one], entry.get(many) or plural(entry[one])) if one in entry else None


@cache
def load(name: str) -> Vocabulary:
    """The words of data/`name`.toml; raises VocabularyError if any of them is wrong."""
    text = (DATA / f"{name}.toml").read_text(encoding="utf-8")
    sections = _parse(DATA / f"{name}.toml", text)
    if next(_wrong(sections), None):
        raise VocabularyError("\n".join(problems(DATA / f"{name}.toml")))
    return Vocabulary(sections)


def problems(path: Path) -> list[str]:
    """Everything that is wrong with a file, each with the file and the line."""
    text = path.read_text(encoding="utf-8")
    try:
        sections = _parse(path, text)
    except VocabularyError as error:
        return [str(error)]
    return [
        f"{_name(path)}:{_line(text, section, key, index)}: {section}{f' {key!r}' if key else ''}: {problem}"
        for section, key, problem, index in (*_wrong(sections), *_wrong_patterns(sections))
    ]


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = found[1] if found and found[1] else text.count("\n") + 1
        raise VocabularyError(f"{_name(path)}:{line}: {_AT_LINE.sub('', str(error))}") from None


def _name(path: Path) -> str:
    return str(path.relative_to(_PACKAGE) if path.is_relative_to(_PACKAGE) else path)


def _wrong(sections: Mapping[str, Any]) -> Iterator[_Problem]:
    for section, entries in sections.items():
        if section in _ARRAYS and isinstance(entries, dict):
            yield from _wrong_arrays(section, entries)
        elif not isinstance(entries, dict) or (section not in _OPTIONS and section not in _PLAIN):
            yield _Problem(section, "", "there is no such section")
        else:
            for key, entry in entries.items():
                if problem := _wrong_entry(section, entry):
                    yield _Problem(section, key, problem)
    months = sections.get("lists", {}).get("months", ())
    for key, month in sections.get("short_months", {}).items():
        if month not in months:
            yield _Problem("short_months", key, f"{month!r} is not one of the months")
    if "phrases" in sections:
        names = {field.name for field in fields(Phrases)}
        for key in sorted(names ^ sections["phrases"].keys()):
            yield _Problem("phrases", key, "is missing" if key in names else "there is no such phrase")


def _wrong_arrays(section: str, arrays: Mapping[str, Any]) -> Iterator[_Problem]:
    for name, words in arrays.items():
        if name not in _ARRAYS[section] or not isinstance(words, list):
            yield _Problem(section, name, f"there is no such array in [{section}]")
            continue
        seen = set[str]()
        for index, word in enumerate(words):
            if not isinstance(word, str) or not word.strip():
                yield _Problem(section, name, "a word is empty or no string", index)
            elif word in seen:
                yield _Problem(section, name, f"{word!r} is listed twice", index)
            else:
                seen.add(word)


def _wrong_patterns(sections: Mapping[str, Any]) -> Iterator[_Problem]:
    """Not part of loading: the rules compile all patterns of an array as one, and hundreds take long."""
    for name, patterns in sections.get("patterns", {}).items():
        for index, pattern in enumerate(patterns):
            try:
                regex.compile(pattern)
            except regex.error as error:
                yield _Problem("patterns", name, f"{pattern!r} is no pattern: {error}", index)


def _wrong_entry(section: str, entry: Any) -> str:
    silent = section in _SILENT
    if isinstance(entry, str):
        return "" if entry or silent else "the words are empty"
    options = _OPTIONS.get(section)
    if options is None or not isinstance(entry, dict):
        return "must be a string" if options is None else "must be a string or a table"
    word = next(iter(options))
    if word not in entry:
        return f"{word!r} is missing"
    for key, value in entry.items():
        if key not in options:
            return f"unknown key {key!r}; known are {', '.join(options)}"
        if not isinstance(value, options[key]):
            return f"{key!r} must be a {options[key].__name__}"
        if value == "" and not silent:
            return f"{key!r} is empty"
    return ""


def _line(text: str, section: str, key: str, index: int) -> int:
    """The line of a section, an entry, or a word of an array."""
    found, header = 1, ""
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line.startswith("["):
            header = line.strip("[]")
            found = number if header == section else found
        elif header == section and line.partition(" = ")[0].strip("'\"") == key:
            found = number
            break
    for _ in range(index + 1):
        found += 1
        while not text.splitlines()[found - 1].strip().startswith(("'", '"')):
            found += 1
    return found
