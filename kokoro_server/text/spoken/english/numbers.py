"""Numbers that no other rule has read: names, years, cardinals."""

from __future__ import annotations

from typing import Any

from kokoro_server.text.spoken.engine import Dialect, Reading, rule
from kokoro_server.text.spoken.english.patterns import AT_NUMBER, DIGITS, LEFT, NUMBER, RIGHT
from kokoro_server.text.spoken.english.words import decimal, in_pairs, plural, year

_EVERYDAY_PLURALS = (
    "people|men|women|children|users|lines|words|pages|meters|metres|kilometers|kilometres|miles|feet|years|days|"
    "hours|minutes|"
    "seconds|dollars|euros|pounds|points|times|calories|items|copies|files|rows|students|species|votes|soldiers|"
    "troops|members|"
    "employees|workers|homes|houses|residents|inhabitants|cases|deaths|jobs|patients|characters|tokens|samples|"
    "acres|tons|tonnes|"
    "bytes|units|steps|seats|watts|volts|cars|ships|books|others|more|of them"
)
# Words before a number that is a name: its digits are read in pairs.
_NAMES = (
    r"(?:[Rr]oom|Rm\.|[Ff]light|[Rr]oute|[Hh]ighway|[Hh]wy|[Ii]nterstate|[Bb]us|[Tt]rain|[Gg]ate|[Oo]rder|"
    r"[Tt]icket|[Ii]nvoice|[Ss]uite|"
    r"[Ee]xtension|[Ee]xt\.?|[Pp]ort|[Ee]rror|[Cc]ode|HTTP|RFC|ISO|IEEE|Boeing|Airbus|Model|[Ss]tatus|PEP|"
    r"Area|Studio|Peugeot|Porsche|"
    r"BMW|Ferrari|Audi|Route|US|RTX|GTX|Apartment|[Aa]pt\.?|[Bb]uilding|Intel|Ryzen|Core|Formula|Channel|L"
    r"ocker|Box|Case|Form|Psalm|CVE|SR|Title)"
)


def _year(match: Any, dialect: Dialect) -> Reading:
    words = year(int(match["year"]), dialect)
    return f"{words}'s" if match["own"] else words


def _name(match: Any, dialect: Dialect) -> Reading:
    return in_pairs(match["number"], dialect)


def _number(match: Any, dialect: Dialect) -> Reading:
    words = _agent(match["number"]) or decimal(match["number"], dialect)
    suffix = match["suffix"]
    if suffix:
        return f"{words}'s" if suffix[0] in "'’" else plural(words)
    return words


def _agent(text: str) -> str:
    return "double oh seven" if text == "007" else ""


RULES = [
    rule(
        "number",
        rf"{LEFT}(?<=\b{_NAMES}\s(?:[A-Z]{{2}} )?\#?)(?P<number>[0-9]{{3,4}})(?![\p{{L}}\p{{N}}%])(?![.,:][0-9])",
        _name,
        DIGITS,
        at=AT_NUMBER,
    ),
    rule(
        "number",
        rf"{LEFT}(?P<number>[0-9]{{2,4}})(?=(?:\s[NSEW]\.?)?\s(?:[A-Z][\p{{L}}'.]+\s){{1,2}}(?:Street|St|Avenue|"
        rf"Ave|Road|Rd|Boulevard|Blvd|Drive|Dr|Lane|Ln|Court|Ct|Place|Pl|Way|Square|Sq|Parkway|Pkwy|Highway|Hwy|"
        rf"Terrace|Crescent|Row)\b)",
        _name,
        DIGITS,
        at=AT_NUMBER,
    ),
    rule(
        "year",
        rf"{LEFT}(?P<year>(?:1[1-9]|20)[0-9]{{2}}|10[1-9][0-9]|9[0-9]{{2}}(?<=\b[Ii]n "
        rf"9[0-9]{{2}}))(?P<own>['’]s)?(?![\p{{L}}\p{{N}}%])(?![.,:][0-9])(?!\s(?:{_EVERYDAY_PLURALS})\b)(?![- "
        rf"](?:foot|mile|meter|metre|year|pound|word|page|point)\b)",
        _year,
        DIGITS,
        at=AT_NUMBER,
    ),
    rule(
        "number",
        rf"(?<![\p{{L}}\p{{N}}.,:/-])(?P<number>[0-9]{{1,3}}(?: [0-9]{{3}})+)(?P<suffix>(?!))?(?<= [0-9]{{3}} "
        rf"[0-9]{{3}}|[0-9]00){RIGHT}(?![ -][0-9])",
        _number,
        " ",
        DIGITS,
        at=AT_NUMBER,
    ),
    rule(
        "number",
        rf"(?<![\p{{N}}])(?<![0-9][.,])(?P<number>{NUMBER})(?P<suffix>['’]?s(?![\p{{L}}\p{{N}}]))?(?![0-9])",
        _number,
        DIGITS,
        at=AT_NUMBER,
    ),
]
