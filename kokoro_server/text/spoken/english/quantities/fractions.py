"""Fractions, and what is written as they are: ratings, scores, days and laws."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from kokoro_server.text.spoken.english.maths import SUB, SUBSCRIPTS, SUPER, SUPER_DIGITS, SUPERSCRIPTS
from kokoro_server.text.spoken.english.patterns import INTEGER, LEFT, MONTH_NAMES, number_rule
from kokoro_server.text.spoken.english.words import cardinal, decimal, in_pairs, letters, ordinal, plural, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import SPACE, follows

_VULGAR = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
_STARS = re.compile(r"\s?(?:⭐|★|stars\b)")
_CRICKET = re.compile(r"\b(?:overs?|wickets?|innings|declared|stumps|tea|lunch|bowled)\b")
_RATED = (
    r"(?:[Rr]ated?:?|[Rr]ating(?: is| of|:)?|[Ss]core[ds]?(?: is| of|:| a| it)?|[Gg]ave(?: it| this| them)?"
    r"(?: an?)?|[Gg]ot(?: an?)?|[Gg]rade|[Gg]ive(?: it)?(?: an?)?|[Ss]olid|it'?s an?)"
)
_COUNTED = (
    r"(?:(?i:retry|attempt|step|page|part|lap|level|lvl|stage|wave|round|day|quest|task|question|item|slide|chapter|"
    r"episode|phase|batch|progress|health|mana|ammo|stamina)|HP|MP|SP|XP)"
)
_METRE = re.compile(r" (?:time|beat|meter|metre|groove|rhythm|signature)\b")
_HALF_OF = re.compile(
    r"\s(?P<article>(?:an?|the|my|his|her|our|your|their)\b)|\s?(?P<noun>[Tt]b(?:sp|s)s?|TBSP|tablespoon|mile|hour|dozen|"
    r"million|pound|pint|day|year|century)\b(?![ -](?:old|long|run|walk|drive|ride|race|price|mark)\b)"
)
_DETERMINER = re.compile(r"(?i)\b(?:an?|another|the|this|that|each|every|one|his|her|its|our|my|your|their|per)\s\Z")


def fraction(top: int, bottom: int, dialect: Dialect) -> str:
    if bottom == 2:
        name = "half" if top == 1 else "halves"
    elif bottom == 4:
        name = "quarter" if top == 1 else "quarters"
    else:
        name = ordinal(bottom, dialect)
        name = name if top == 1 else plural(name)
    return f"{cardinal(top, dialect)} {name}"


def _day_and_month(first: int, second: int, dialect: Dialect) -> str:
    """12/25 is a date, as nobody counts in twenty-fifths."""
    month, day = (second, first) if dialect.british else (first, second)
    if not (1 <= month <= 12 and (13 <= day <= 31 or month == day == 1)) or day in (16, 20):
        return ""
    name, number = MONTH_NAMES[month - 1], ordinal(day, dialect)
    return f"the {number} of {name}" if dialect.british else f"{name} {number}"


def _half(match: Any) -> str:
    """½ before some nouns: half a tablespoon, half an hour, half the price."""
    noun = _HALF_OF.match(match.string, match.end())
    if noun is None or follows(match, _DETERMINER):
        return ""
    return "half" if noun["article"] else "half an" if noun["noun"] == "hour" else "half a"


def _fraction(match: Any, dialect: Dialect) -> SpokenWords:
    top, bottom = int(value(match["top"])), int(match["bottom"])
    if match["th"] and not match["whole"]:
        return fraction(top, bottom, dialect) if top and bottom > 1 else None
    if (
        match["counted"] is not None
        and not match["whole"]
        and (match["of"] is None or match.string.startswith(" of", match.end()))
    ):
        return f"{cardinal(top, dialect)} of {cardinal(bottom, dialect)}"
    if (top, bottom) == (20, 20) and match.string.startswith((" vision", " eyesight", " hindsight"), match.end()):
        return "twenty twenty"
    rated = match["rated"] is not None or top == bottom or _STARS.match(match.string, match.end())
    if rated and bottom in (5, 10, 20, 100):
        return f"{cardinal(top, dialect)} out of {cardinal(bottom, dialect)}"
    if _METRE.match(match.string, match.end()) or (top, bottom) in (
        (24, 7),
        (50, 50),
        (20, 20),
        (9, 11),
        (60, 40),
        (80, 20),
        (70, 30),
        (7, 7),
    ):
        return f"{cardinal(top, dialect)} {cardinal(bottom, dialect)}"
    if (top, bottom) == (4, 4) and match.string[match.start() - 1 : match.start()] != "(":
        return "four four"
    if top == bottom > 1 and not match["whole"]:
        return f"{cardinal(top, dialect)} out of {cardinal(bottom, dialect)}"
    if (top, bottom, match["whole"]) == (1, 2, None) and (half := _half(match)):
        return half
    if match["whole"] is None and match["of"] is None and (words := _day_and_month(top, bottom, dialect)):
        return words
    proper = 0 < top < bottom and (bottom <= 20 or bottom in (25, 30, 32, 40, 50, 60, 64, 100, 128, 365, 1000))
    if match["whole"]:
        if not proper:
            return None
        half = (
            "a half"
            if (top, bottom) == (1, 2)
            else "a quarter"
            if (top, bottom) == (1, 4)
            else fraction(top, bottom, dialect)
        )
        return f"{cardinal(int(match['whole']), dialect)} and {half}"
    if proper or (top in (3, 5, 7, 9) and bottom in (2, 4, 8) and match["of"] is not None):
        return fraction(top, bottom, dialect)
    if bottom == 1 and top > 1:
        return f"{cardinal(top, dialect)} to one"
    if top > 19 and bottom < 11 and _CRICKET.search(match.string, match.end(), match.end() + 60):
        return f"{cardinal(top, dialect)} for {cardinal(bottom, dialect)}"
    if match["top"][0] == "0" or bottom == 0:
        return f"{decimal(match['top'], dialect)} slash {decimal(match['bottom'], dialect)}"
    return f"{cardinal(top, dialect)} over {cardinal(bottom, dialect)}"


def _directive(match: Any, dialect: Dialect) -> SpokenWords:
    """Directive 95/46/EC, Regulation (EU) 2016/679."""
    parts = [in_pairs(match["first"], dialect), in_pairs(match["second"], dialect)]
    if match["body"]:
        parts.append(letters(match["body"], dialect))
    return " slash ".join(parts)


def _vulgar(match: Any, dialect: Dialect) -> SpokenWords:
    top, bottom = unicodedata.normalize("NFKC", match["vulgar"]).split("⁄")
    if not match["whole"]:
        half = _half(match) if (top, bottom) == ("1", "2") else ""
        return half or fraction(int(top), int(bottom), dialect)
    said = (
        "a half"
        if (top, bottom) == ("1", "2")
        else "a quarter"
        if (top, bottom) == ("1", "4")
        else fraction(int(top), int(bottom), dialect)
    )
    return f"{decimal(match['whole'], dialect)} and {said}"


def _script_fraction(match: Any, dialect: Dialect) -> SpokenWords:
    """³⁄₄, and the half of a half-life: T₁/₂."""
    top, bottom = match["top"].translate(SUPERSCRIPTS), match["bottom"]
    top, bottom = int(top.translate(SUBSCRIPTS)), int(bottom.translate(SUBSCRIPTS))
    return fraction(top, bottom, dialect) if 0 < top < 100 and 1 < bottom < 1000 else None


RULES = [
    number_rule(
        "law",
        r"(?<=\b(?:Regulations?|Directives?|Decisions?|Reg\.|Dir\.)\s(?:\(\p{Lu}{2,7}\)\s)?(?:No\.?\s)?)(?P<first>[0-9]{2,4})"
        r"/(?P<second>[0-9]{1,4})(?:/(?P<body>EU|EC|EEC|JHA))?(?![\p{L}\p{N}/])",
        _directive,
        "/",
    ),
    rule("fraction", rf"(?<![\p{{L}}])(?P<whole>{INTEGER})?{SPACE}?(?P<vulgar>[{_VULGAR}])", _vulgar, _VULGAR),
    number_rule(
        "fraction",
        rf"{LEFT}(?P<rated>(?<=\b{_RATED} ))?(?P<counted>(?<=\b{_COUNTED}:? ))?(?:(?P<whole>[0-9]{{1,3}})[ -])?"
        rf"(?P<top>[0-9]{{1,4}}|[0-9]{{1,3}}(?:,[0-9]{{3}})(?=/1\b))[/⁄]"
        rf"(?P<bottom>[0-9]{{1,4}})(?:(?P<th>(?:st|nd|rd|th)s?)(?!\p{{L}}))?"
        rf"(?P<of>(?= (?:of|inch|cup|mile|hour)))?(?![\p{{L}}\p{{N}}])(?![/.,:][0-9])",
        _fraction,
        "/⁄",
    ),
    number_rule(
        "rating",
        rf"{LEFT}(?P<top>[0-9]{{1,2}}\.[0-9])/(?P<bottom>5|10|20|100)(?![\p{{L}}\p{{N}}])(?![/.,:][0-9])",
        lambda match, dialect: f"{decimal(match['top'], dialect)} out of {decimal(match['bottom'], dialect)}",
        "/",
    ),
    rule(
        "fraction",
        rf"(?P<top>[{SUPER_DIGITS}]{{1,3}})[/⁄](?P<bottom>[₀-₉]{{1,3}})|"
        rf"(?P<top>[₀-₉]{{1,3}})[/⁄](?P<bottom>[₀-₉]{{1,3}})",
        _script_fraction,
        "/⁄",
        SUPER + SUB,
    ),
]
