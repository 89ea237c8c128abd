"""Times of day and durations."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import LEFT, NUMBER, AnyWord, number_rule
from kokoro_server.text.spoken.english.words import ONES, cardinal, decimal, letters, ordinal, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DASH, DIGITS, any_of, two_words

_ZONE_NAME = any_of(vocabulary.load("english").list("time_zones"))
# The dot after a.m. belongs to it unless a sentence ends there.
_HALF = rf"\s?(?P<half>[AaPp](?:[Mm]\b|\.\s?[Mm]\b(?:\.(?!\s*+\Z|\s*+\n|\s++(?!(?:{_ZONE_NAME})\b)[\"“‘'(]?[A-Z]))?))"
_SHORT_HALF = r"(?P<half>[ap])(?![\p{L}\p{N}'’]|\.\p{L})"
_ZONE = rf"(?:\s?\(?(?P<zone>(?:{_ZONE_NAME})\b)(?P<offset>[+−-][0-9]{{1,2}}(?::[0-9]{{2}})?)?)"
_NOT_AFTER = r"(?:(?<![\p{L}\p{N}$£€])|(?<=[0-9]T))(?<![0-9][.,:/])"
_HOURS = regex.compile(r"\s?(?:hrs?|hours)\b")
_DURATIONS = vocabulary.load("english_units").words("durations")


def _clock(match: Any, dialect: Dialect) -> SpokenWords:
    hour, minute, second, half = int(match["hour"]), match["minute"], match["second"], match["half"]
    if half and not 1 <= hour <= 24:
        return None
    words = cardinal(hour, dialect)
    if second:
        words = f"{words} {_minutes(minute, dialect)} {_minutes(second, dialect)}"
    elif minute and minute != "00":
        words = f"{words} {_minutes(minute, dialect)}"
    elif minute and not half:
        words = _full_hour(hour, words, hundred=hour > 12 or _HOURS.match(match.string, match.end()) is not None)
    claims: list[tuple[Where, str]] = [("clock", words)]
    if half:
        claims = two_words(match, "clock", words, "half", letters(f"{half[0]}m", dialect))
    if match["zone"]:
        end = match.end("offset" if match["offset"] else "zone")
        claims.append(((match.start("zone"), end), _zone(match, dialect)))
    return claims


def _full_hour(hour: int, words: str, *, hundred: bool) -> str:
    if hour in (0, 24):
        return "midnight"
    return f"{words} hundred" if hundred else f"{words} o'clock"


def _minutes(text: str, dialect: Dialect) -> str:
    if text == "00":
        return "oh oh"
    return f"oh {ONES[int(text)]}" if text[0] == "0" else cardinal(int(text), dialect)


def _zone(match: Any, dialect: Dialect) -> str:
    words = letters(match["zone"], dialect)
    if not match["offset"]:
        return words
    sign = "plus" if match["offset"][0] == "+" else "minus"
    hours, _, minutes = match["offset"][1:].partition(":")
    said = cardinal(int(hours), dialect) + (f" {_minutes(minutes, dialect)}" if minutes not in ("", "00") else "")
    return f"{words} {sign} {said}"


def _zulu(match: Any, dialect: Dialect) -> SpokenWords:
    if not match["sign"]:
        return letters("UTC", dialect)
    minutes = "" if match["minutes"] == "00" else f" {_minutes(match['minutes'], dialect)}"
    return f"{'plus' if match['sign'] == '+' else 'minus'} {cardinal(int(match['hours']), dialect)}{minutes}"


def _shillings(match: Any, dialect: Dialect) -> SpokenWords:
    words = [f"{cardinal(int(match['shillings']), dialect)} shilling{'' if match['shillings'] == '1' else 's'}"]
    if match["pence"]:
        words.append(f"{cardinal(int(match['pence']), dialect)} {'penny' if match['pence'] == '1' else 'pence'}")
    return " and ".join(words)


def _military(match: Any, dialect: Dialect) -> SpokenWords:
    """0930 hours: zero nine thirty."""
    hour, minute = match["h"], match["m"]
    hours = f"zero {ONES[int(hour)]}" if hour[0] == "0" else cardinal(int(hour), dialect)
    return f"{hours} {'hundred' if minute == '00' else _minutes(minute, dialect)}"


def _lap(match: Any, dialect: Dialect) -> SpokenWords:
    minutes, seconds = cardinal(int(match["min"]), dialect), _minutes(match["sec"], dialect)
    return f"{minutes} {seconds} {decimal(match['rest'], dialect)}"


def _duration(match: Any, dialect: Dialect) -> SpokenWords:
    """Each part of 1h 30m, 2 hrs 5 min."""
    claims: list[tuple[Where, str]] = []
    for start, end, amount, unit in zip(
        match.starts("n"), match.ends("u"), match.captures("n"), match.captures("u"), strict=True
    ):
        name = _DURATIONS[unit] if value(amount) == "1" else f"{_DURATIONS[unit]}s"
        claims.append(((start, end), f"{decimal(amount, dialect)} {name}"))
    return claims


_PART = rf"(?P<n>{NUMBER})\s?(?P<u>{any_of(_DURATIONS)})(?:\b\.?|(?=[0-9]))"
_BIBLE = vocabulary.load("english").words("bible_books")
_BOOKS = "|".join((*_BIBLE, vocabulary.load("english_grammar").pattern("books")))
_VERSE_FOLLOWS = r"(?=\s[0-9]{1,3}:[0-9])"
RULES = [
    # 1 Cor. 13:4, Rev. 3:16, 2 Kings 4:7.
    rule(
        "book",
        rf"(?<![\p{{L}}\p{{N}}.])(?P<book>{any_of(_BIBLE)})(?:\.|(?<=[1-3] \p{{L}}+)|"
        rf"(?<!\b(?:Col|Dan|Gal|Jas|Mal|Matt|Mic|"
        rf"Num|Pet|Phil|Sam|Tim))){_VERSE_FOLLOWS}(?!\s[0-9:]+\s?[ap]\.?m\b)",
        lambda match, _dialect: _BIBLE[match["book"]],
        ":",
        DIGITS,
        AnyWord(_BIBLE),
    ),
    number_rule(
        "book",
        r"(?<![\p{L}\p{N}.,:/-])(?P<part>[1-3])(?=\s(?:Sam|Samuel|Kgs|Kings|Chr|Chron|Chronicles|Cor|Corinthians|Thess|"
        rf"Thessalonians|Tim|Timothy|Pet|Peter|Jn|John)\b\.?{_VERSE_FOLLOWS})",
        lambda match, dialect: ordinal(int(match["part"]), dialect),
        ":",
    ),
    number_rule(
        "verse",
        rf"(?<=\b(?:{_BOOKS})\.?\s)(?P<chapter>[0-9]{{1,3}})(?P<colon>:)(?P<verse>[0-9]{{1,3}})(?![0-9:]|\s?[ap]\.?m)",
        lambda match, dialect: (
            [(group, cardinal(int(match[group]), dialect)) for group in ("chapter", "verse")] + [("colon", " ")]
        ),
        ":",
    ),
    # 2026-11-19T08:05:33Z, 08:05:33+01:00.
    rule(
        "time zone",
        r"(?<=[0-9]:[0-5][0-9](?:\.[0-9]{1,9})?)Z(?![\p{L}\p{N}])|"
        r"(?<=[0-9]T[0-9:.]{5,18})(?P<sign>[+−-])(?P<hours>[01][0-9]):?(?P<minutes>[0-5][0-9])(?![\p{L}\p{N}])",
        _zulu,
        ":",
        DIGITS,
    ),
    number_rule(
        "time",
        rf"{_NOT_AFTER}(?P<clock>(?P<hour>[0-9]{{1,3}}):(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])"
        rf"(?:\.[0-9]+)?)?)(?![0-9:]|[.,][0-9])(?:{_HALF}|{_SHORT_HALF})?{_ZONE}?"
        r"(?![\p{N}])(?!\s(?:ratio|scale|odds|mix|split)\b)",
        _clock,
        ":",
    ),
    number_rule(
        "time",
        rf"{_NOT_AFTER}(?P<clock>(?P<hour>[0-9]{{1,2}})(?:[.:](?P<minute>[0-5][0-9]))?)(?P<second>"
        rf"(?!))?{_HALF}{_ZONE}?",
        _clock,
        "aApP",
        "mM",
    ),
    # At 3p, 8a-8p: elsewhere they are pence.
    number_rule(
        "time",
        rf"{_NOT_AFTER}(?P<clock>(?P<hour>1[0-2]|[1-9]))(?P<minute>(?!))?(?P<second>(?!))?{_SHORT_HALF}(?P<zone>(?!))?"
        rf"(?P<offset>(?!))?(?!\s(?:each|per|a|an|off|more|less)\b|/)"
        r"(?:(?<=(?:\b(?:at|by|until|till?|from|after|before|around)|@) [0-9]+p)|"
        rf"(?=\s?{DASH}\s?[0-9]{{1,2}}p\b)|(?<=[0-9][ap]\s?{DASH}\s?[0-9]+p))",
        lambda match, dialect: None if dialect.british else _clock(match, dialect),
        "ap",
    ),
    # £3 10s. 6d., 2s. 6d.: without this rule, durations.
    number_rule(
        "shillings",
        r"(?<![\p{L}\p{N}.,$])(?P<shillings>[0-9]{1,2})s\b\.?(?:(?<=£[0-9,]{1,9},? [0-9]+s\.?)|(?=,? [0-9]{1,2}d\b))"
        r"(?:,? (?P<pence>[0-9]{1,2})d\b(?:\.(?!\s*+\Z|\s*+\n|\s++[\"“‘'(]?[A-Z]))?)?",
        _shillings,
        "s",
    ),
    number_rule(
        "lap time",
        rf"{_NOT_AFTER}(?P<min>[0-9]{{1,2}}):(?P<sec>[0-5][0-9])(?P<rest>\.[0-9]{{1,3}})(?![\p{{N}}:])",
        _lap,
        ":",
    ),
    # With a dot, as in Britain: at 14.35, the 3.15 train.
    number_rule(
        "time",
        rf"{_NOT_AFTER}(?P<clock>(?P<hour>1?[0-9]|2[0-3])\.(?P<minute>[0-5][0-9]))(?P<second>(?!))?(?P<half>(?!))?"
        rf"(?P<zone>(?!))?(?P<offset>(?!))?(?![\p{{L}}\p{{N}}%])(?!\.[0-9]|\s(?:percent|per|million|billion|degrees|"
        rf"[kmc]?[mg]|points|times)\b)(?:(?<=\b(?:(?:[Ll]eav|[Dd]epart|[Aa]rriv|[Ss]tart|[Bb]egin|[Ee]nd|[Oo]pen|"
        rf"[Cc]los|[Mm]eet|[Tt]rain|[Bb]us)\p{{Ll}}*)\s(?:at\s|from\s)?(?:[0-9.]+\s(?:and|to|or)\s)?[0-9.]+)|(?<=\b[Tt]he\s\S+)(?=\s(?:at|from|to)\s\p{{Lu}})|(?=\s(?:train|bus|"
        rf"flight|ferry|service|showing|kick-off|start)\b))",
        lambda match, dialect: _clock(match, dialect) if dialect.british else None,
        ".",
    ),
    rule("range", r"(?<=[0-9][ap])\s?(?P<dash>[-–—])\s?(?=[0-9]{1,2}[ap]\b)", lambda _m, _d: [("dash", "to")], "-–—"),
    rule(
        "range",
        r"(?<=[0-9]\s?[AaPp]\.?[Mm]\.?|\b[Nn]oon|\b[Mm]idnight)\s?(?P<dash>[-–—])\s?(?=[0-9])|"
        r"(?<=[0-9]\s?[AaPp]\.?[Mm]\.?)\s?(?P<dash>[-–—])\s?(?=(?:noon|midnight)\b)",
        lambda _m, _d: [("dash", "to")],
        "-–—",
    ),
    rule(
        "time",
        r"\b(?P<zone>UTC|GMT)(?P<offset>[+−-][0-9]{1,2}(?::[0-9]{2})?)\b",
        lambda match, dialect: _zone(match, dialect),
        "+−-",
    ),
    number_rule("duration", rf"{LEFT}{_PART}(?:,?\s?{_PART})++(?!\p{{L}})", _duration),
    number_rule(
        "military time",
        r"(?<![\p{L}\p{N}.,$])(?P<h>[0-2][0-9])(?P<m>[0-5][0-9])(?:(?=(?:\s?[-–]\s?[0-2][0-9][0-5][0-9])? "
        r"(?:hours|hrs|GMT|UTC|Zulu)\b)|(?<=\b(?:at|by|until|till|from|to|before|after) 0[0-9]{3})"
        r"(?![\p{L}\p{N}%]|[.,:/-][0-9]))",
        _military,
    ),
    rule("military time", r"(?<=\b[0-2][0-9][0-5][0-9] )hrs\b", "hours", "h", DIGITS),
    rule(
        "countdown",
        r"(?<![\p{L}\p{N}])T(?P<minus>[-−])(?=[0-9]{1,3}\s?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b)",
        lambda _match, _dialect: [("minus", "minus")],
        "T",
        DIGITS,
    ),
]
