"""Abbreviations: titles, those before a number, those anywhere; and acronyms that are spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import LONE_LETTER, SPACE, any_of
from kokoro_server.text.spoken.shared.patterns import OWN_DOT, WORD_END, D
from kokoro_server.text.spoken.shared.table import LanguageTable

_NUMBER = re.compile(rf"{D}|\b[IVXLC]+\b")
_SANTA = regex.compile(rf"{SPACE}\p{{Lu}}\p{{Ll}}+a\b(?<!Luca|Andrea|Nicola)")
_SPACES = regex.compile(r"\s+")
_AT_DOTTED = re.compile(r"(?<![\w.@/&-])[^\W\d_][^\s.]{0,9}\.")
_PARTICLES = r"(?:(?:d[aeo]s?|du|des|del|della|dei|las?|los|les?)[ ]|[dl]['’]){0,2}+"
# Text before a title of one letter, and text that cannot follow one.
_BEFORE_LETTER = regex.compile(
    r"(?:\A|\n|(?<!\b\p{Lu})[.!?…]\s|\b(?:de|del|do|da|di|d|du|a|al|ao|à|con|com|avec|e|y|et|o|el|il|le|la|re|rei|rey|roi|rainha|reina|"
    r"regina|rua|calle|via|avenida|plaza|piazza|praça|iglesia|igreja|chiesa|fray|frei|por|para|per|pour|que|che)\s)\Z",
    regex.IGNORECASE,
)
_PARTICLE = re.compile(r"\.?\s(?:d[aeo]s?|del|della)\s")
_BEGINS_SENTENCE = re.compile(
    r"\.?\s(?:Luego|Después|Entonces|Pero|Depois|Então|Mas|Poi|Allora|Ma|Puis|Alors|Mais|El|La|Los|Las|Il|Lo|Le|Les|O|A|Os|As|É|Es|Y|E|Et)\b"
)
_LEFT = r"(?<![\p{L}\p{M}\p{N}.@/&-])"


def _is_title(match: Any) -> bool:
    """Whether a single letter is a title: `a D. Pedro`, `rua S. Bento`. Any other is an initial or a mere letter."""
    before = match.string[max(0, match.start() - 20) : match.start()]
    if _PARTICLE.match(match.string, match.end()):
        return True
    return bool(_BEFORE_LETTER.search(before)) and not _BEGINS_SENTENCE.match(match.string, match.end())


def rules(table: LanguageTable) -> list[Rule]:
    titles, numbered, anywhere = map(
        _spellings, (table.words.titles, table.words.before_numbers, table.words.abbreviations)
    )
    said_titles, said_numbered, said_anywhere = map(_spaceless, (titles, numbered, anywhere))

    def title(match: Any, _dialect: Dialect) -> SpokenWords:
        word = _key(match["word"])
        if len(word) == 2 and word[1] == "." and not _is_title(match):
            return None
        is_santa = word == "S." and _SANTA.match(match.string, match.end())
        return "santa" if is_santa else said_titles[word]

    def abbreviation(match: Any, _dialect: Dialect) -> SpokenWords:
        return said_anywhere[_key(match["word"] + ("." if match["dot"] is not None else ""))]

    dotted = [entry[:-1] for entry in anywhere if entry.endswith(".")]
    long = [entry for entry in dotted if "." in entry]  # before titles: `av. J.-C.`, `av. Foch`
    short = [entry for entry in dotted if "." not in entry]
    plain = [entry for entry in anywhere if not entry.endswith(".")]

    def with_dot(keys: list[str]) -> list[Rule]:
        if not keys:
            return []
        end = rf"(?P<dot>{OWN_DOT}|(?=\.(?!\p{{L}})))(?!\p{{L}})"
        return [rule("abbreviation", rf"{_LEFT}(?P<word>{_any(keys)}){end}", abbreviation, ".", at=_AT_DOTTED)]

    rules = [
        *with_dot(long),
        rule(
            "title",
            rf"{_LEFT}(?P<word>{_any(titles)})\.?(?={SPACE}(?![IVXLC]+\b){_PARTICLES}[\"“«(]?[\p{{Lu}}\p{{Devanagari}}])",
            title,
            _some(titles),
        ),
        rule(
            "abbreviation",
            rf"{_LEFT}(?P<word>{_any(numbered)})(?={SPACE}?\(?(?:{D}|[IVXLC]+\b))",
            lambda match, _dialect: [("word", said_numbered[_key(match["word"])])],
            _NUMBER,
            _some(numbered),
        ),
        *with_dot(short),
    ]
    if plain:
        rules.append(
            rule("abbreviation", rf"{_LEFT}(?P<word>{_any(plain)})(?P<dot>(?!))?{WORD_END}", abbreviation, _some(plain))
        )
    if table.words.slashed:
        rules.append(
            rule(
                "abbreviation",
                rf"(?<![\p{{L}}\p{{M}}\p{{N}}/])(?:{any_of(table.words.slashed)}){WORD_END}(?!/)",
                lambda match, _dialect: table.words.slashed[match[0]],
                "/",
            )
        )
    return rules


def capitals(table: LanguageTable) -> list[Rule]:
    """A letter that is all of a text, by its name; and what is always spelled."""

    def name(match: Any, _dialect: Dialect) -> SpokenWords:
        letter = match["letter"]
        return [("letter", table.spell(letter))] if letter.lower() in table.words.letters else None

    lone = rule("letter", LONE_LETTER.pattern, name, LONE_LETTER)
    if not table.words.spelled:
        return [lone]
    return [
        lone,
        rule(
            "acronym",
            rf"(?<![\p{{L}}\p{{M}}\p{{N}}])(?:{any_of(table.words.spelled)}){WORD_END}",
            lambda match, _dialect: table.spell(match[0]),
            re.compile("|".join(table.words.spelled)),
        ),
    ]


def _spellings(entries: Mapping[str, str]) -> dict[str, str]:
    """Also as at the beginning of a sentence."""
    return {spelling: words for entry, words in entries.items() for spelling in (entry, entry[0].upper() + entry[1:])}


def _spaceless(entries: Mapping[str, str]) -> dict[str, str]:
    return {_key(entry): words for entry, words in entries.items()}


def _key(text: str) -> str:
    """Spaces do not count: `p. ej.` and `p.ej.` are one."""
    return str(_SPACES.sub("", text))


def _any(entries: Iterable[str]) -> str:
    """One of the entries, the longest first, with a space or none after each dot."""
    return "|".join(_pattern(entry) for entry in sorted(entries, key=len, reverse=True))


def _pattern(entry: str) -> str:
    parts = [part.strip() for part in regex.split(r"(?<=\.)", entry) if part.strip()]
    return f"{SPACE}?".join(regex.escape(part, literal_spaces=True).replace(" ", SPACE) for part in parts)


def _some(entries: Iterable[str]) -> Any:
    """A quick pattern that matches every text with one of the entries."""
    return re.compile(rf"\b(?:{any_of({_SPACES.split(entry)[0].split('.')[0] for entry in entries})})")
