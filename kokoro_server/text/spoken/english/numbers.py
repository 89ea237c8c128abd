"""Numbers that no other rule has read: names, years, cardinals."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import LEFT, NUMBER, RIGHT, number_rule
from kokoro_server.text.spoken.english.words import decimal, in_pairs, letters, plural, year
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of, follows

_GRAMMAR = vocabulary.load("english_grammar")
_EVERYDAY_PLURALS = any_of(_GRAMMAR.list("everyday_plurals"))
# 1234 apples are a number of apples, but not after these: in 1999 prices rose.
_COUNTED = regex.compile(r"\s(?!(?:was|is|has|does|goes|gets|saw|this|plus|sees|marks|brings|began)\b)\p{Ll}{3,}s\b")
_YEAR_BEFORE = regex.compile(
    r"\b(?:[Ii]n|[Ss]ince|[Bb]y|[Uu]ntil|[Tt]he|[Oo]f|[Ff]rom|[Aa]fter|[Bb]efore|[Cc]irca|[Yy]ear|[Ll]ate|"
    r"[Ee]arly|[Mm]id|[Dd]uring|[Tt]hrough|[Ii]ts|[Tt]heir|[Hh]is|[Hh]er|January|February|March|April|May|June|"
    r"July|August|September|October|November|December)[\s-]\Z"
)
# Words before a number that is a name: its digits are read in pairs.
_NAMES = rf"(?:{_GRAMMAR.pattern('numbered_names')})"


def _year(match: Any, dialect: Dialect) -> SpokenWords:
    if _COUNTED.match(match.string, match.end()) and not follows(match, _YEAR_BEFORE):
        return None
    words = year(int(match["year"]), dialect)
    return f"{words}'s" if match["own"] else words


def _name(match: Any, dialect: Dialect) -> SpokenWords:
    return in_pairs(match["number"], dialect)


def _number(match: Any, dialect: Dialect) -> SpokenWords:
    words = _agent(match["number"]) or decimal(match["number"], dialect)
    suffix = match["suffix"]
    if suffix:
        return f"{words}'s" if suffix[0] in "'’" else plural(words)
    return words


def _agent(text: str) -> str:
    return "double oh seven" if text == "007" else ""


def _plan(match: Any, dialect: Dialect) -> SpokenWords:
    """401(k), 501(c)(3)."""
    parts = [match["number"], *regex.findall(r"\(([a-z]|[0-9]{1,2})\)", match["rest"])]
    said = (letters(part, dialect) if part.isalpha() else in_pairs(part, dialect) for part in parts)
    return " ".join(said)


RULES = [
    number_rule("number", rf"{LEFT}(?P<number>[1-9][0-9]{{2}})(?P<rest>\([a-z]\)(?:\([0-9]\))?)", _plan, "("),
    number_rule(
        "number",
        rf"{LEFT}(?P<number>404|[1-5][0-9]{{2}}(?=\s(?:errors?|responses?|status|redirects?|Not Found|Forbidden|"
        rf"Internal|Bad Gateway|Unauthorized|Created)\b)){RIGHT}(?=[.,;:!?)\s]|\Z)(?!\s\p{{Ll}}+s\b(?<!errors|"
        rf"responses|redirects|status))",
        _name,
    ),
    number_rule(
        "number",
        rf"{LEFT}(?<=\b{_NAMES}\s(?:[A-Z]{{2}} |[0-9]{{3}} (?:or|and) )?\#?)"
        rf"(?P<number>[0-9]{{3,4}})(?![\p{{L}}\p{{N}}%])(?![.,:][0-9])",
        _name,
    ),
    number_rule(
        "number",
        rf"{LEFT}(?P<number>[0-9]{{2,4}})(?=(?:\s[NSEW]\.?)?\s(?:[A-Z][\p{{L}}'.]+\s){{1,2}}(?:Street|St|Avenue|"
        rf"Ave|Road|Rd|Boulevard|Blvd|Drive|Dr|Lane|Ln|Court|Ct|Place|Pl|Way|Square|Sq|Parkway|Pkwy|Highway|Hwy|"
        rf"Terrace|Crescent|Row)\b)",
        _name,
    ),
    rule("number", r"(?<=\p{Lu}\p{L}+ )101(?=[.,;:!?)]|\s*\Z|\s(?:class|course)\b)(?!\.[0-9])", "one oh one", "1"),
    number_rule(
        "year",
        rf"{LEFT}(?<!(?<!\p{{L}})\.)(?P<year>(?:1[1-9]|20)[0-9]{{2}}|10[1-9][0-9]|9[0-9]{{2}}(?<=\b[Ii]n 9[0-9]{{2}}))"
        rf"(?P<own>['’]s)?(?![\p{{L}}\p{{N}}%])(?![.,:][0-9])(?!\s(?:{_EVERYDAY_PLURALS})\b)(?![- ](?:foot|mile|"
        rf"meter|metre|year|pound|word|page|point)\b)",
        _year,
    ),
    number_rule(
        "number",
        rf"(?<![\p{{L}}\p{{N}}.,:/-])(?P<number>[0-9]{{1,3}}(?: [0-9]{{3}})+)(?P<suffix>(?!))?"
        rf"(?<= [0-9]{{3}} [0-9]{{3}}|[0-9]00){RIGHT}(?![ -][0-9])",
        _number,
        " ",
    ),
    number_rule(
        "number",
        rf"(?<![\p{{N}}])(?<![0-9][.,])(?P<number>{NUMBER})(?P<suffix>['’]?s(?![\p{{L}}\p{{N}}]))?(?![0-9])",
        _number,
    ),
]
