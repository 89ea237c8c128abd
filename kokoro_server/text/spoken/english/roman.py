"""Roman numerals: ordinals after the names of rulers, numbers after chapters and the like."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.words import cardinal, ordinal, year
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule, rules_at
from kokoro_server.text.spoken.patterns import any_of, roman_value

_GRAMMAR = vocabulary.load("english_grammar")
_RULERS = frozenset(_GRAMMAR.list("rulers"))
_TITLES = any_of(_GRAMMAR.list("royal_titles"))
# Words that a numeral counts.
_COUNTED = _GRAMMAR.pattern("counted")
_FIRST_PERSON = any_of(_GRAMMAR.list("first_person"))
_REST = any_of(_GRAMMAR.list("first_person_rest"))
_ONLY_I = any_of(_GRAMMAR.list("only_i"))
_NUMERAL = r"[IVXLCDM]+"
_NOT_NUMERALS = frozenset(_GRAMMAR.list("not_numerals"))
_FIRST_NAMES = (
    r"(?:[A-Z]\.|Jr\.|[A-Z][a-z]+ (?:[A-Z]\. )?(?:Rockefeller|Howell|Ford|Griffin|Downey|Gates|Barnes|Thornton))"
)


def parse(text: str) -> int | None:
    """The value of a numeral in its usual form, below 4000."""
    return None if "MMMM" in text.upper() else roman_value(text.upper())


def _say(number: int, dialect: Dialect) -> str:
    return year(number, dialect) if 1100 <= number < 2100 else cardinal(number, dialect)


def _ruler(match: Any, dialect: Dialect) -> SpokenWords:
    number = parse(match["numeral"])
    return [("numeral", f"the {ordinal(number, dialect)}")] if number else None


def _known_ruler(match: Any, dialect: Dialect) -> SpokenWords:
    return _ruler(match, dialect) if match["name"] in _RULERS else None


def _counted(match: Any, dialect: Dialect) -> SpokenWords:
    claims: list[tuple[Where, str]] = []
    for group in ("numeral", "second"):
        if match[group]:
            number = parse(match[group])
            if not number:
                return None
            claims.append((group, _say(number, dialect)))
    return claims + ([("dash", "to")] if match["dash"] and match["dash"].strip() in "-–—" else [])


def _alone(match: Any, dialect: Dialect) -> SpokenWords:
    number = None if match["numeral"] in _NOT_NUMERALS else parse(match["numeral"])
    return [("numeral", _say(number, dialect))] if number else None


def _century(match: Any, dialect: Dialect) -> SpokenWords:
    number = parse(match["numeral"])
    return [("numeral", ordinal(number, dialect))] if number else None


roman_rule = rules_at(re.compile(r"(?<![^\W_])[IVXLCDM]+(?![^\W_])"))
_SMALL = re.compile(r"\b[ivx]{2}")
_AFTER_NAME = r"(?<=\b(?P<name>[A-Z][a-z]+)\s)"
_AFTER = r"(?![\p{L}\p{N}])(?![.][\p{L}])"
_TO = rf"(?:(?P<dash>\s?[-–—]\s?|\s(?:and|to|or|&)\s)(?P<second>{_NUMERAL}))?"
RULES = [
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?:{_TITLES})\s(?:[A-Z][\p{{L}}]+\s){{1,3}})(?P<numeral>{_NUMERAL}){_AFTER}(?!\s(?:{_FIRST_PERSON})\b)",
        _ruler,
    ),
    roman_rule("Roman numeral", rf"{_AFTER_NAME}(?P<numeral>(?!I\b)(?![LCDM]\b){_NUMERAL}){_AFTER}", _known_ruler),
    roman_rule(
        "Roman numeral",
        rf"{_AFTER_NAME}(?P<numeral>I)(?=['’]s\b|[,;)]|\s(?:of|was|had|is|became|died|reigned|ruled|and|"
        rf"in|who|to|by|at|abdicated|succeeded|granted|ordered|married|founded|\p{{Ll}}{{3,}}ed)\b|\.?\s*\Z|\.\s)(?!\s(?:was|had|"
        rf"and|am)\s(?:{_REST})\b)",
        _known_ruler,
    ),
    roman_rule(
        "Roman numeral", rf"(?<=\b{_FIRST_NAMES}\s(?:[A-Z][\p{{L}}]+\s)?)(?P<numeral>II|III|IV){_AFTER}", _ruler
    ),
    roman_rule(
        "Roman numeral",
        r"(?<=\p{Lu}\p{L}+\s\p{Lu}[\p{L}'’-]+,?\s)(?P<numeral>II|III|IV|V)(?=,\sEsq\b)",
        _ruler,
    ),
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?:{_COUNTED})\s)(?P<numeral>(?![LCDM]\b){_NUMERAL}){_TO}{_AFTER}(?<!\bI(?=\s(?:{_ONLY_I})\b|"
        rf"['’](?:m|ll|d|ve)\b))",
        _counted,
    ),
    # A list: volumes I, II and III.
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?i:{_COUNTED})\s(?:[IVX]+,\s){{0,6}}(?:[IVX]+,?\s(?:and|or|&)\s)?)(?P<numeral>[IVX]+)"
        rf"(?P<dash>(?!))?(?P<second>(?!))?"
        rf"(?:(?=,\s(?:[IVX]{{2}}|[VX]\b|(?:and|or)\s[IVX]+\b))|(?<=,\s[IVX]+){_AFTER}(?=\s(?:and|or|&)\s[IVX])|"
        rf"(?<=,\s(?:[IVX]+,?\s)?(?:and|or|&)\s[IVX]+){_AFTER})",
        _counted,
    ),
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?:{_COUNTED.lower()})\s)(?P<numeral>(?![ILCDMVX]\b){_NUMERAL}|[IVX](?=\s?[-–—]\s?[IVX]+\b)){_TO}{_AFTER}",
        _counted,
    ),
    roman_rule(
        "Roman numeral", rf"(?<![\p{{L}}\p{{N}}])(?P<numeral>{_NUMERAL})(?=(?:th)?[ -]centur(?:y|ies)\b)", _century
    ),
    roman_rule(
        "Roman numeral",
        rf"(?<=\p{{Lu}}[\p{{L}}'’]+[\s-])(?P<numeral>[IVX]{{2,6}}|[IVXLCDM]{{4,12}}){_AFTER}(?!\s(?:drip|fluids?|"
        rf"line|therapy)\b)",
        _alone,
    ),
    roman_rule(
        "Roman numeral",
        rf"(?<![\p{{L}}\p{{N}}.])(?P<numeral>III|VII|VIII|XII|XIII|XIV|XVI|XVII|XVIII|XIX|XXI|XXII|XXIII|XXIV|"
        rf"M[CDLXVIM]{{3,14}}){_AFTER}",
        _alone,
    ),
    rule(
        "Roman numeral",
        rf"(?V1)(?<=\(|\bpp?\. |^|\b(?i:{_COUNTED})\s)(?P<numeral>ii|iii|iv|vi|vii|viii|ix|xi|xii|xiii|xiv|xv|"
        rf"[ivx](?=[-–][ivx]{{2}}))"
        rf"(?:(?P<dash>[-–])(?P<second>[ivx]{{2,6}}))?(?=\)|[-–](?!\p{{L}})|[,.;: ]|\Z)(?<=[(. \n][\p{{L}}–-]+)",
        _counted,
        _SMALL,
    ),
]
