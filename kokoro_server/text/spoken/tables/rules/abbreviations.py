"""Abbreviations: titles, what stands before a number, what may stand anywhere; and acronyms that are spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import regex

from kokoro_server.text.spoken.engine import Dialect, Reading, Rule, rule
from kokoro_server.text.spoken.patterns import any_of
from kokoro_server.text.spoken.tables.rules.patterns import OWN_DOT, SPACE, WORD_END, D
from kokoro_server.text.spoken.tables.table import Table

_LEFT = r"(?<![\p{L}\p{M}\p{N}.@/&-])"


def rules(table: Table) -> list[Rule]:
    titles, numbered, anywhere = (
        _spellings(entries) for entries in (table.titles, table.before_numbers, table.abbreviations)
    )

    def title(match: Any, _dialect: Dialect) -> Reading:
        return [("word", titles[_key(match["word"])])]

    def before_number(match: Any, _dialect: Dialect) -> Reading:
        return [("word", numbered[_key(match["word"])])]

    def abbreviation(match: Any, _dialect: Dialect) -> Reading:
        return anywhere[_key(match["word"] + ("." if match["dot"] is not None else ""))]

    dotted = [entry[:-1] for entry in anywhere if entry.endswith(".")]
    long = [entry for entry in dotted if "." in entry]  # before titles: `av. J.-C.`, `av. Foch`
    short = [entry for entry in dotted if "." not in entry]
    plain = [entry for entry in anywhere if not entry.endswith(".")]

    def with_dot(keys: list[str]) -> list[Rule]:
        if not keys:
            return []
        end = rf"(?P<dot>{OWN_DOT}|(?=\.(?!\p{{L}})))(?!\p{{L}})"
        return [rule("abbreviation", rf"{_LEFT}(?P<word>{_any(keys)}){end}", abbreviation, ".")]

    rules = [
        *with_dot(long),
        rule(
            "title",
            rf"{_LEFT}(?P<word>{_any(titles)})(?={SPACE}[\"“«(]?[\p{{Lu}}\p{{Devanagari}}])",
            title,
            _initials(titles),
        ),
        rule(
            "abbreviation",
            rf"{_LEFT}(?P<word>{_any(numbered)})(?={SPACE}?\(?(?:{D}|[IVXLC]+\b))",
            before_number,
            _initials(numbered),
        ),
        *with_dot(short),
    ]
    if plain:
        rules.append(
            rule(
                "abbreviation",
                rf"{_LEFT}(?P<word>{_any(plain)})(?P<dot>(?!))?{WORD_END}",
                abbreviation,
                _initials(plain),
            )
        )
    if table.slashed:
        rules.append(
            rule(
                "abbreviation",
                rf"(?<![\p{{L}}\p{{M}}\p{{N}}/])(?:{any_of(table.slashed)}){WORD_END}(?!/)",
                lambda match, _dialect: table.slashed[match[0]],
                "/",
            )
        )
    return rules


def capitals(table: Table) -> list[Rule]:
    if not table.spelled:
        return []
    return [
        rule(
            "acronym",
            rf"(?<![\p{{L}}\p{{M}}\p{{N}}])(?:{any_of(table.spelled)}){WORD_END}",
            lambda match, _dialect: table.spell(match[0]),
            re.compile("|".join(table.spelled)),
        )
    ]


def _spellings(entries: Mapping[str, str]) -> dict[str, str]:
    """Also as at the beginning of a sentence. Spaces do not count: `p. ej.` and `p.ej.` are one."""
    return {
        spelling: words
        for entry, words in entries.items()
        for spelling in (_key(entry), _key(entry[0].upper() + entry[1:]))
    }


def _key(text: str) -> str:
    return str(regex.sub(r"\s", "", text))


def _any(keys: Iterable[str]) -> str:
    """One of the keys, the longest first, with a space or none after each dot."""
    ordered = sorted(keys, key=len, reverse=True)
    return "|".join(regex.sub(r"\\\.(?=.)", rf"\\.{SPACE}?", regex.escape(key)) for key in ordered)


def _initials(keys: Iterable[str]) -> str:
    return "".join({key[0] for key in keys})
