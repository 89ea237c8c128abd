"""Dates, years, decades, centuries."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import FULL_MONTH, LEFT, MONTH_NAMES, MONTHS, SHORT_MONTH, number_rule
from kokoro_server.text.spoken.english.words import cardinal, digits, letters, ordinal, plural, year
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DASH, DASHES, DIGITS, any_of, follows

_WEEKDAYS = vocabulary.load("english").words("weekdays")
_WEEKDAY = any_of(_WEEKDAYS)
_ANSWERED = "RSVP|(?i:due|reply|respond|return|register|submit|send|pay|order|apply|done|ready|back)"
_ANY_WEEKDAY = rf"(?:{_WEEKDAY}|{any_of(dict.fromkeys(_WEEKDAYS.values()))})"
_MONTH = rf"(?P<month>(?:{FULL_MONTH})|(?:{SHORT_MONTH})\b\.?)"
_DAY = r"(?P<day>(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th|(?<=[23])d)?)"
_TO_DAY = rf"(?:\s?(?P<dash>{DASH})\s?(?P<today>(?:[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?)(?![0-9]))?"
# The beginning and the end of a date, beside a dash between two dates.
_DATE_END = rf"(?:[0-9]{{4}}|[0-9](?:st|nd|rd|th)?|{FULL_MONTH}|(?:{SHORT_MONTH})\.?|BCE?|AD|CE|present|Present)"
_DATE_BEGIN = (
    rf"(?:(?:c\.|ca\.|circa)\s?[0-9]|(?:{FULL_MONTH}|{SHORT_MONTH})\b|[0-9]{{1,2}}\s(?:{FULL_MONTH}|{SHORT_MONTH})\b|"
    r"[12][0-9]{3}\b(?![-–,.][0-9])|[Pp]resent\b|AD\s[0-9])"
)
_YEAR = r"(?P<year>[1-9][0-9]{3})(?![0-9]|,[0-9]|\.[0-9])"
_END = r"(?![\p{N}])(?![.,:/][0-9])(?!\s?(?:%|[ap]\.?m\b))"
_WEEKDAY_LIKE = re.compile(rf"(?:{_WEEKDAY})\b")
_MONTH_LIKE = re.compile(r"(?:Jan|Feb|Aug|Sept|Oct|Nov|Dec)\b")
_ERA = re.compile(r"B\.?C|A\.?D|C\.?E")
# A year, or a month with a day, is a date; 5 alone is not.
_DATED = regex.compile(rf"(?:\b[12][0-9]{{3}}|(?:{FULL_MONTH}|{SHORT_MONTH}|BCE?|AD|CE)\b[. 0-9a-z]*)\Z")
_SENTENCE_END = regex.compile(r"\s*+(?:\Z|\n)|\s++[\"“‘'(]?[A-Z]")
_THE = regex.compile(r"\b[Tt]he\s\Z")


def month_name(text: str) -> str:
    return MONTHS[text[:3]]


def _month_claim(match: Any) -> list[tuple[Where, str]]:
    text = match["month"]
    if text in MONTH_NAMES:
        return []
    ends = text.endswith(".") and _SENTENCE_END.match(match.string, match.end("month"))
    return [("month", month_name(text) + ("." if ends else ""))]


def _day(text: str, dialect: Dialect) -> str:
    return ordinal(int("".join(filter(str.isdecimal, text))), dialect)


def _year_claim(match: Any, dialect: Dialect) -> list[tuple[Where, str]]:
    return [("year", year(int(match["year"]), dialect))] if match["year"] else []


def _month_day(match: Any, dialect: Dialect) -> SpokenWords:
    claims = [*_month_claim(match), ("day", _day(match["day"], dialect))]
    if match["today"]:
        claims += [("dash", "to"), ("today", _day(match["today"], dialect))]
    return claims + _year_claim(match, dialect)


def _day_month(match: Any, dialect: Dialect) -> SpokenWords:
    """5 May is the fifth of May; after `the` and before `of` the ordinal alone."""
    the = "" if follows(match, _THE) else "the "
    of = "" if match["of"] else " of"
    first, last = ("day", "today") if match["today"] else ("day", "day")
    claims: list[tuple[Where, str]] = [(first, the + _day(match[first], dialect) + ("" if match["today"] else of))]
    if match["today"]:
        if match["dash"].strip() in DASHES:
            claims.append(("dash", "to"))
        claims.append((last, f"the {_day(match['today'], dialect)}{of}"))
    return claims + _month_claim(match) + _year_claim(match, dialect)


def _date(years: str, month: int, day: int, dialect: Dialect) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    said = ""
    if len(years) == 4:
        said = f" {year(int(years), dialect)}"
    elif years:
        said = f" {year((2000 if int(years) < 70 else 1900) + int(years), dialect)}"
    if dialect.british:
        return f"the {ordinal(day, dialect)} of {MONTH_NAMES[month - 1]}{said}"
    return f"{MONTH_NAMES[month - 1]} {ordinal(day, dialect)}{said}"


def _iso(match: Any, dialect: Dialect) -> SpokenWords:
    words = _date(match["y"], int(match["m"]), int(match["d"]), dialect)
    return words and [("date", words), *([("t", "at")] if match["t"] else [])]


def _numeric(match: Any, dialect: Dialect) -> SpokenWords:
    """Month first in America, day first in Britain and wherever dots are used, or as it must be."""
    first, second = int(match["a"]), int(match["b"])
    day_first = dialect.british or match["sep"] == "."
    month, day = (second, first) if (day_first and second <= 12) or first > 12 else (first, second)
    return _date(match["y"] or "", month, day, dialect)


def _days(match: Any, dialect: Dialect) -> SpokenWords:
    """12/23-1/2."""
    first, last = (_date("", int(match[m]), int(match[d]), dialect) for m, d in (("m", "d"), ("tom", "tod")))
    if not first or not last or dialect.british:
        return None
    return [("from", first), ("dash", "to"), ("to", last)]


def _weekday(match: Any, _dialect: Dialect) -> SpokenWords:
    return _WEEKDAYS[match["weekday"].rstrip(".")]


def _decade(match: Any, dialect: Dialect) -> SpokenWords:
    number = int(match["decade"])
    if number % 100 == 0 and len(match["decade"]) == 4:
        high = number // 100
        return plural(cardinal(number, dialect)) if high % 10 == 0 else f"{cardinal(high, dialect)} hundreds"
    if len(match["decade"]) == 4:
        return f"{cardinal(number // 100, dialect)} {plural(cardinal(number % 100, dialect))}"
    return "two thousands" if number == 0 else plural(cardinal(number, dialect))


def _era(match: Any, dialect: Dialect) -> SpokenWords:
    claims: list[tuple[Where, str]] = [("era", letters(match["era"], dialect))]
    if match["number"] and not match["comma"]:
        claims.append(("number", year(int(match["number"]), dialect)))
    return claims


def _season(match: Any, dialect: Dialect) -> SpokenWords:
    """2020/21, 2003-04: the second year without its century."""
    second = match["second"]
    said = f"oh {digits(second[1])}" if second[0] == "0" else cardinal(int(second), dialect)
    joint = "to" if match["dash"] in DASHES else " "
    return [("first", year(int(match["first"]), dialect)), ("dash", joint), ("second", said)]


def _quarter(match: Any, dialect: Dialect) -> SpokenWords:
    years = match["year"]
    said = year(int(years) if len(years) == 4 else 2000 + int(years), dialect)
    return f"{letters(match['letter'], dialect)} {cardinal(int(match['number']), dialect)} {said}"


def _fiscal(match: Any, dialect: Dialect) -> SpokenWords:
    years = match["year"]
    said = year(int(years), dialect) if len(years) == 4 else cardinal(int(years), dialect)
    return f"{letters(match['letters'], dialect)} {said}"


RULES = [
    number_rule(
        "date",
        r"(?<![\p{L}\p{N}])(?<![0-9][.,:/-])(?P<date>(?P<y>[12][0-9]{3})(?P<sep>[-/.‑–])(?P<m>0?[1-9]|"
        r"1[0-2])(?P=sep)(?P<d>0?[1-9]|[12][0-9]|3[01]))(?:(?P<t>T)(?=[0-9]{2}:[0-9]{2})|(?![\p{L}\p{N}]|"
        r"[-/.][0-9]))",
        _iso,
    ),
    number_rule(
        "date",
        r"(?<![\p{L}\p{N}$])(?<![0-9][.,:/-])(?P<a>[0-9]{1,2})(?P<sep>[-/.])(?P<b>[0-9]{1,2})(?P=sep)"
        r"(?P<y>[12][0-9]{3}|[0-9]{2}(?=[^.]|\.(?![0-9])|\Z))(?![\p{L}\p{N}]|[-/][0-9])",
        lambda match, dialect: _numeric(match, dialect) if len(match["y"]) == 4 or match["sep"] == "/" else None,
        "-/.",
    ),
    # 03-Feb-1988.
    number_rule(
        "date",
        rf"{LEFT}(?P<d>0?[1-9]|[12][0-9]|3[01])(?P<sep>[-/])(?P<month>{FULL_MONTH}|{SHORT_MONTH})(?P=sep)"
        r"(?P<y>[12][0-9]{3}|[0-9]{2})(?![\p{L}\p{N}-])",
        lambda match, dialect: _date(match["y"], [*MONTHS].index(match["month"][:3]) + 1, int(match["d"]), dialect),
        "-/",
    ),
    # A month and a year: in 5/2026, 01/2020 - 12/2024.
    number_rule(
        "date",
        rf"{LEFT}(?P<m>0?[1-9]|1[0-2])/(?P<y>(?:19|20)[0-9]{{2}})(?![\p{{L}}\p{{N}}/%]|[.,:-][0-9])(?:"
        rf"(?<=\b(?i:in|of|since|until|till|by|from|to|through|before|after|due|valid|dated|expires|exp\.?|expiry):?\s"
        rf"[0-9/]{{6,7}})|(?=\s?{DASH}\s?[01]?[0-9]/(?:19|20)[0-9]{{2}}\b)|"
        rf"(?<=/(?:19|20)[0-9]{{2}}\s?{DASH}\s?[0-9/]{{6,7}}))",
        lambda match, dialect: f"{MONTH_NAMES[int(match['m']) - 1]} {year(int(match['y']), dialect)}",
        "/",
    ),
    # A card's exp. 09/28.
    number_rule(
        "date",
        rf"{LEFT}(?P<m>0[1-9]|1[0-2])/(?P<y>[23][0-9])(?![\p{{L}}\p{{N}}/%]|[.,:-][0-9])"
        r"(?<=\b(?i:exp\.?|expires|expiry(?: date)?|expiration(?: date)?|valid (?:thru|through|until)):?\s[0-9/]{5})",
        lambda match, dialect: f"{MONTH_NAMES[int(match['m']) - 1]} {year(2000 + int(match['y']), dialect)}",
        "/",
    ),
    number_rule(
        "date",
        rf"{LEFT}(?P<from>(?P<m>1?[0-9])/(?P<d>[1-3]?[0-9]))\s?(?P<dash>{DASH})\s?"
        rf"(?P<to>(?P<tom>1?[0-9])/(?P<tod>[1-3]?[0-9]))(?![\p{{L}}\p{{N}}/%\"″]|[.,:-][0-9])"
        rf"(?<=\b(?i:on|due|dates?|out|off|away|from|open|closed|ooo|pto|week|vacation|leave|for|in|between|sale|trip):?\s"
        rf"[0-9/]{{3,5}}\s?{DASH}\s?[0-9/]{{3,5}})(?!\s(?:cups?|in|inch|inches|tsp|tbsp|oz|lbs?)\b)",
        _days,
        "/",
    ),
    number_rule(
        "date",
        rf"{LEFT}(?P<a>[0-9]{{1,2}})(?P<sep>/)(?P<b>[0-9]{{1,2}})(?P<y>(?!))?(?![\p{{L}}\p{{N}}/%]|[.,:-][0-9])"
        rf"(?<=\b(?:(?i:on|due|before|dated?|since|until|till|starting|ending)|(?:{_ANSWERED}) by|"
        rf"{_ANY_WEEKDAY}[.,]{{0,2}}):?\s[0-9/]{{3,5}})(?! of\b| (?:the )?(?:stars|points))",
        _numeric,
        "/",
    ),
    rule(
        "weekday",
        rf"\b(?P<weekday>(?:{_WEEKDAY})\b\.?)(?=,?\s(?:{FULL_MONTH}|{SHORT_MONTH}|[0-9]{{1,2}}(?:\b|[apAP][mM]\b))|"
        rf"\s?{DASH}\s?{_ANY_WEEKDAY}\b|/{_ANY_WEEKDAY}\b|,?\s(?:and|or|to|&)\s{_ANY_WEEKDAY}\b|"
        r"\s(?:(?:at|@)\s[0-9]|at noon|(?:morning|afternoon|evening|night)s?\b))",
        _weekday,
        _WEEKDAY_LIKE,
    ),
    rule(
        "weekday",
        rf"\b(?P<weekday>(?:{_WEEKDAY})\b\.?)(?<=\b{_ANY_WEEKDAY}\.?\s?(?:{DASH}|/|,\s|(?:and|or|to|&) )\s?"
        rf"(?:{_WEEKDAY})\.?)",
        _weekday,
        _WEEKDAY_LIKE,
    ),
    # These are nothing else. The other short ones are days after a word such as next, but Sun may be the firm.
    rule(
        "weekday",
        rf"\b(?P<weekday>Tues|Weds|Thurs|Thur|Fri|(?<=\b(?i:this|next|last|every|first|second|third|"
        rf"fourth|1st|2nd|3rd|4th)\s)(?:{_WEEKDAY})|"
        rf"(?<=\b(?i:on|by|until|till|til|before|after)\s)(?:Mon|Tue|Wed|Thu|Sat))(?![\p{{L}}\p{{N}}'’-]|\.\p{{L}}|\s\p{{Lu}})"
        r"(?:\.(?=,|\s\p{Ll}))?",
        _weekday,
        _WEEKDAY_LIKE,
    ),
    rule(
        "date",
        rf"\b{_MONTH}\s{_DAY}{_TO_DAY}{_END}(?:,?\s{_YEAR})?(?!\s(?:people|times|percent|men|women|of them|or)\b)",
        _month_day,
        DIGITS,
    ),
    number_rule(
        "date",
        rf"{LEFT}{_DAY}(?:(?P<dash>\s?{DASH}\s?|\s(?:to|and|or|&)\s(?:the )?)(?P<today>(?:[1-9]|[12][0-9]|3[01])"
        rf"(?:st|nd|rd|th)?))?(?P<of>\sof)?\s{_MONTH}(?![\p{{L}}\p{{N}}])(?:,?\s{_YEAR})?(?!\s[0-9]{{1,2}}\b(?!:))",
        _day_month,
    ),
    rule(
        "date",
        rf"\b{_MONTH},?\s{_YEAR}{_END}",
        lambda match, dialect: _month_claim(match) + _year_claim(match, dialect),
        DIGITS,
    ),
    rule(
        "month",
        r"(?<=\b(?:in|since|until|till|by|from|to|of|last|next|this|early|late|mid|and|through)[ -])(?P<month>"
        r"(?:Jan|Feb|Aug|Sept|Oct|Nov|Dec)\b\.?)(?!\s[A-Z][a-z])",
        lambda match, _dialect: _month_claim(match),
        _MONTH_LIKE,
    ),
    rule(
        "month",
        rf"\b(?P<month>(?:{SHORT_MONTH})\b\.?)(?=\s?[–-]\s?(?:{FULL_MONTH}|{SHORT_MONTH})\b)|(?<=\b"
        rf"(?:{FULL_MONTH}|(?:{SHORT_MONTH})\.?)\s?[–-]\s?)(?P<month>(?:{SHORT_MONTH})\b\.?)",
        lambda match, _dialect: [("month", month_name(match["month"]))],
        "–-",
    ),
    rule(
        "range",
        rf"(?<=\b(?:{FULL_MONTH}|(?:{SHORT_MONTH})\.?|{_ANY_WEEKDAY}\.?))\s?(?P<dash>[–-])\s?(?="
        rf"(?:{FULL_MONTH}|{SHORT_MONTH}|{_ANY_WEEKDAY})\b)",
        lambda _m, _d: [("dash", "to")],
        "–-",
    ),
    rule(
        "range",
        rf"(?<=\b{_DATE_END})\s?(?P<dash>[–—]|(?<=\s)-(?=\s))\s?(?={_DATE_BEGIN})",
        lambda match, _dialect: [("dash", "to")] if follows(match, _DATED, 24) else None,
        "–—-",
    ),
    number_rule("decade", r"(?<![\p{L}\p{N}])(?<![0-9][.,])(?P<decade>[12][0-9]{2}0)['’]?s(?![\p{L}\p{N}])", _decade),
    rule("decade", r"['’‘](?P<decade>[0-9]0)s(?![\p{L}\p{N}])", _decade, DIGITS),
    number_rule(
        "decade",
        r"(?<![\p{L}\p{N}.,$])(?P<decade>[2-9]0)['’]?s(?![\p{L}\p{N}])(?! (?:timeout|delay|timer|wait|interval)\b)"
        r"(?<![|=:(~<>]\s?[0-9]0s)(?<!\b(?:1?[0-9]|[0-9]{3})s (?:to|or|and) [0-9]0s)"
        r"(?<!\b(?:for|every|after|within|least|than|takes|took|only|under|(?:timeout|limit|set|up|val|delay|timer) "
        r"(?:to|of))\s[0-9]0s)",
        _decade,
    ),
    rule(
        "year",
        r"(?<![0-9])['’‘](?P<y>[0-9]{2})(?![\p{L}\p{N}'’])",
        lambda match, dialect: (
            f"oh {digits(match['y'][1])}" if match["y"][0] == "0" else cardinal(int(match["y"]), dialect)
        ),
        "'’‘",
        DIGITS,
    ),
    rule("fiscal year", r"\b(?P<letters>FY|CY|fy)[ ]?['’]?(?P<year>(?:20|19)?[0-9]{2})\b", _fiscal, DIGITS),
    rule(
        "quarter",
        r"\b(?P<letter>[QHqh])(?P<number>[1-4])[ ]?['’]?(?P<year>(?:20|19)[0-9]{2}|(?<=['’])[0-9]{2})\b",
        _quarter,
        DIGITS,
    ),
    number_rule(
        "season",
        rf"{LEFT}(?P<first>(?:1[5-9]|20)[0-9]{{2}})(?P<dash>[-–/])(?P<second>[0-9]{{2}})(?![\p{{L}}\p{{N}}]|"
        rf"[-.,/–][0-9])",
        _season,
    ),
    number_rule(
        "era",
        r"(?<![\p{L}\p{N}])(?:(?P<number>[0-9]{1,4})|(?P<comma>[0-9]{1,3}(?:,[0-9]{3})+))?(?:\s?)(?P<era>BCE|BC|"
        r"CE|AD|B\.C\.E\.?|B\.C\.?|A\.D\.?|C\.E\.?)(?![\p{L}\p{N}])(?<=[0-9](?:st|nd|rd|th|s| century|"
        r" centuries)?\s?[A-Z.]+)",
        _era,
        "BCA",
    ),
    rule("era", r"\b(?P<era>AD|A\.D\.|CE)\s(?P<number>[0-9]{1,4})(?P<comma>(?!))?\b", _era, _ERA, DIGITS),
]
