"""Roman numerals: ordinals after the names of rulers, numbers after chapters and the like."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.words import cardinal, letters, ordinal, year
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule, rules_at
from kokoro_server.text.spoken.patterns import INNER_DOT, any_of, roman_value

_GRAMMAR = vocabulary.load("english_grammar")
_RULERS = frozenset(_GRAMMAR.list("rulers"))
_TITLES = any_of(_GRAMMAR.list("royal_titles"))
# Words that a numeral counts.
_COUNTED = _GRAMMAR.pattern("counted")
_FIRST_PERSON = any_of(_GRAMMAR.list("first_person"))
_REST = any_of(_GRAMMAR.list("first_person_rest"))
_GIVEN = any_of(_GRAMMAR.list("first_names"))
_ONLY_I = any_of(_GRAMMAR.list("only_i"))
_NUMERAL = r"[IVXLCDM]+"
_NOT_NUMERALS = frozenset(_GRAMMAR.list("not_numerals"))
_FIRST_NAMES = (
    r"(?:[A-Z]\.|Jr\.|[A-Z][a-z]+ (?:[A-Z]\. )?(?:Rockefeller|Howell|Ford|Griffin|Downey|Gates|Barnes|Thornton))"
)


def _parse(text: str) -> int | None:
    return roman_value(text.upper())


def _say(number: int, dialect: Dialect) -> str:
    return year(number, dialect) if 1100 <= number < 2100 else cardinal(number, dialect)


def _ruler(match: Any, dialect: Dialect) -> SpokenWords:
    number = _parse(match["numeral"])
    return [("numeral", f"the {ordinal(number, dialect)}")] if number else None


def _known_ruler(match: Any, dialect: Dialect) -> SpokenWords:
    return _ruler(match, dialect) if match["name"] in _RULERS else None


def _counted(match: Any, dialect: Dialect) -> SpokenWords:
    claims: list[tuple[Where, str]] = []
    for group in ("numeral", "second"):
        if match[group]:
            number = _parse(match[group])
            if not number:
                return None
            claims.append((group, _say(number, dialect)))
    return claims + ([("dash", "to")] if match["dash"] and match["dash"].strip() in "-–—" else [])


def _alone(match: Any, dialect: Dialect) -> SpokenWords:
    number = None if match["numeral"] in _NOT_NUMERALS else _parse(match["numeral"])
    return [("numeral", _say(number, dialect))] if number else None


def _ordinal_of(match: Any, dialect: Dialect) -> SpokenWords:
    """The XXXIII Olympic Games."""
    number = None if match["numeral"] in _NOT_NUMERALS else _parse(match["numeral"])
    return [("numeral", ordinal(number, dialect))] if number else None


def _written_ordinal(match: Any, dialect: Dialect) -> SpokenWords:
    """The XXth century."""
    number = _parse(match["numeral"])
    return ordinal(number, dialect) if number else None


def _same_ruler(match: Any, dialect: Dialect) -> SpokenWords:
    """James VI and I."""
    number = _parse(match["numeral"])
    return [("numeral", ordinal(number, dialect))] if number and match["name"] in _RULERS else None


def _place(match: Any, dialect: Dialect) -> SpokenWords:
    """Section II.B, Part III.A.2, Hamlet III.i.56: each part by itself."""
    parts = [match[group] for group in ("numeral", "second", "third") if match[group]]
    numbers = [int(part) if part.isdecimal() else _parse(part) for part in parts]
    if not numbers[0] or (parts[1].islower() and not numbers[1]):
        return None
    said = [
        cardinal(number, dialect) if number and not (place == 1 and part.isupper()) else letters(part, dialect)
        for place, (part, number) in enumerate(zip(parts, numbers, strict=True))
    ]
    return " ".join(said)


def _century(match: Any, dialect: Dialect) -> SpokenWords:
    number = _parse(match["numeral"])
    return [("numeral", ordinal(number, dialect))] if number else None


# `re` skips to a character of the first set, so that the look-behind comes after it.
_AT_PLACE = re.compile(r"[IVXLC](?<![^\W_].)[IVXLC]*+(?=\.[A-Zivx])")
roman_rule = rules_at(re.compile(r"[IVXLCDM](?<![^\W_].)[IVXLCDM]*+(?![^\W_])"))
_SMALL = re.compile(r"[ivx](?<!\w.)(?:[ivx]|\b)")
_CENTURY = re.compile(r"th centur")
_OXIDATION = re.compile(r"[a-z]\([IV]")
_NTH = (
    "Olymp|Winter|Summer|Games|Congress|Corps|Army|Legion|Dynasty|Amendment|Conference|Session|Assembly|Brigade|Divis"
)
_BOOK_PARTS = r"(?i:acts?|scenes?|sc\.|cantos?|chapters?|ch\.|vols?\.|volumes?|books?|bks?\.|parts?|pts?\.)"
_AFTER_NAME = r"(?<=\b(?P<name>[A-Z][a-z]+)\s)"
_AFTER = r"(?![\p{L}\p{N}])(?![.][\p{L}])"
_TO = rf"(?:(?P<dash>\s?[-–—]\s?|\s(?:and|to|or|&)\s)(?P<second>{_NUMERAL}))?"
RULES = [
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?:{_TITLES})\s(?:[A-Z][\p{{L}}]+\s){{1,3}})(?P<numeral>{_NUMERAL}){_AFTER}(?!\s(?:{_FIRST_PERSON})\b)",
        _ruler,
    ),
    roman_rule(
        "Roman numeral",
        rf"{_AFTER_NAME}(?P<numeral>(?!I\b)(?![LCDM]\b)(?<!\bMalcolm\s(?=X\b)){_NUMERAL}){_AFTER}",
        _known_ruler,
    ),
    roman_rule(
        "Roman numeral",
        rf"{_AFTER_NAME}(?P<numeral>I)(?=['’]s\b|[,;)]|\s(?:of|was|had|is|became|died|reigned|ruled|and|"
        rf"in|who|to|by|at|never|has|rules|reigns|dies|(?:lost|took|made|sent|gave|left|won|built|kept) (?:his|her)|"
        rf"abdicated|succeeded|granted|ordered|married|founded|\p{{Ll}}{{3,}}ed)\b|\.?\s*\Z|\.\s)(?!\s(?:was|had|"
        rf"and|am)\s(?:{_REST})\b)",
        _known_ruler,
    ),
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?P<name>[A-Z][a-z]+)\s[IVX]+\s(?:and|&)\s)(?P<numeral>[IVX]{{2,}}|[IVX](?=[,.;)]|\s*\Z|['’]s|\s(?:of|was|had)\b))"
        rf"{_AFTER}",
        _same_ruler,
    ),
    # Martin Luther King III, Davis Love III.
    roman_rule(
        "Roman numeral",
        rf"(?<=(?<!\p{{L}})(?:{_GIVEN})\s(?:[A-Z]\.\s|[A-Z]\p{{Ll}}+\s)?[A-Z][\p{{L}}'’-]+,?\s)(?P<numeral>II|III|IV){_AFTER}",
        _ruler,
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
    rule(
        "Roman numeral",
        rf"(?<![\p{{L}}\p{{N}}.])(?P<numeral>[IVX]++)\.(?P<second>[ivx]{{1,4}})(?:\.(?P<third>[0-9]{{1,4}})(?:[-–][0-9]+)?)?"
        rf"(?![\p{{L}}\p{{N}}])|(?<=\b(?:{_COUNTED})\s)(?P<numeral>[IVXLC]++)\.(?P<second>[A-Z])(?:\.(?P<third>[0-9]{{1,2}}))?"
        rf"(?![\p{{L}}\p{{N}}])",
        _place,
        INNER_DOT,
        at=_AT_PLACE,
    ),
    # Stage IIIB.
    rule(
        "Roman numeral",
        r"(?<=\b(?i:stage|class|type|grade|phase) )(?P<numeral>I{1,3}|IV|V)(?P<letter>[A-Ca-c])(?![\p{L}\p{N}])",
        lambda match, dialect: f"{_say(_parse(match['numeral']) or 0, dialect)} {letters(match['letter'], dialect)}",
        "IV",
        "ABCabc",
    ),
    roman_rule(
        "Roman numeral", rf"(?<![\p{{L}}\p{{N}}])(?P<numeral>{_NUMERAL})(?=(?:th)?[ -]centur(?:y|ies)\b)", _century
    ),
    rule(
        "Roman numeral", r"(?<![\p{L}\p{N}])(?P<numeral>[IVX]+)th(?=[ -]centur(?:y|ies)\b)", _written_ordinal, _CENTURY
    ),
    roman_rule("Roman numeral", rf"(?<=\b[Tt]he\s)(?P<numeral>[IVXL]{{2,9}})(?=\s(?:{_NTH}))", _ordinal_of),
    roman_rule("Roman numeral", r"(?<=\bof the\s)(?P<numeral>[IVXL]{2,9})(?=\sOlympiad)", _ordinal_of),
    # Fig. II, No. XVII.
    roman_rule(
        "Roman numeral",
        rf"(?<=\b(?:[Nn]os|No|[Ff]igs|[Aa]rts?|[Ss]ecs?|[Vv]ols|[Tt]abs?|[Aa]pp)\.\s)(?P<numeral>[IVXLC]{{2,8}}){_AFTER}",
        _alone,
    ),
    # Rocky II, III and IV.
    roman_rule("Roman numeral", rf"(?<=\b[IVX]{{2,}},?\s(?:and|or|&)\s)(?P<numeral>[IVX]{{2,6}}){_AFTER}", _alone),
    # A heading.
    roman_rule("Roman numeral", r"(?<=\A|\n)(?P<numeral>[IVX]{2,6})(?=\.\s\p{Lu})", _alone),
    # Copper(II) sulfate, Cr(VI).
    rule(
        "Roman numeral",
        r"(?<=(?:\p{Ll}{3}|\b(?:Ag|As|Au|Co|Cr|Cu|Fe|Hg|Mn|Ni|Pb|Sb|Sn|Tl))\()(?P<numeral>I{1,3}|IV|VI{0,3})(?=\))",
        _alone,
        _OXIDATION,
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
    # Act ii, sc. i; chapters iv and v.
    rule(
        "Roman numeral",
        rf"(?<=\b{_BOOK_PARTS}\s(?:[ivx]+,?\s(?:and|or|&)\s)?)(?P<numeral>[ivx]{{2,5}}|[vx]|i(?=[,.;:)]|\s*\Z|\s(?:and|or)\s[ivx]{{2}}))"
        rf"(?P<dash>(?!))?(?P<second>(?!))?{_AFTER}(?!['’])",
        _counted,
        _SMALL,
    ),
]
