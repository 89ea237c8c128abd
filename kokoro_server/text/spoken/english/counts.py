"""Ordinals, percentages, magnitudes, versions, ratios, scores and ranges."""

from __future__ import annotations

from typing import Any

from kokoro_server.text.spoken.engine import Dialect, Reading, Where, rule
from kokoro_server.text.spoken.english.patterns import AT_NUMBER, INNER_DOT, DASHES, DIGITS, INTEGER, LEFT, MAGNITUDES, NUMBER, SPACE
from kokoro_server.text.spoken.english.words import cardinal, decimal, digits, in_pairs, ordinal, plural, value


def _ordinal(match: Any, dialect: Dialect) -> Reading:
    number = value(match["number"])
    if len(number) > 15:
        return None
    words = ordinal(int(number), dialect)
    return plural(words) if match["many"] else words


def _percent(match: Any, dialect: Dialect) -> Reading:
    return f"{decimal(match['number'], dialect)} {'percent' if match['sign'] in '%％' else 'per mille'}"


def _magnitude(match: Any, dialect: Dialect) -> Reading:
    letter = match["big"]
    words = MAGNITUDES[letter.lower()] if letter not in ("K", "B", "T", "b", "t") else letter
    return f"{decimal(match['number'], dialect)} {words}"


def _dotted(match: Any, dialect: Dialect) -> Reading:
    """A version or a section: 3.2.1."""
    said = " point ".join(decimal(part, dialect) if part[0] != "0" else digits(part) for part in match["number"].split("."))
    return [("v", "version"), ("number", said)] if match["v"] else [("number", said)]


def _chain(match: Any, dialect: Dialect) -> Reading:
    """4-4-2, 1-2-3, 50-50: numbers side by side."""
    return " ".join(in_pairs(part, dialect) for part in match[0].replace("–", "-").split("-"))


def _ratio(match: Any, dialect: Dialect) -> Reading:
    return [("first", decimal(match["first"], dialect)), ("colon", "to"), ("second", decimal(match["second"], dialect))]


def _to(match: Any, _dialect: Dialect) -> Reading:
    return [("dash", "and" if match["between"] is not None else "to")]


def _score(match: Any, dialect: Dialect) -> Reading:
    zero = "nil" if dialect.british else "zero"
    said = [zero if each == "0" else decimal(each, dialect) for each in (match["first"], match["second"])]
    claims: list[tuple[Where, str]] = [("first", said[0]), ("dash", "to" if not dialect.british else " "), ("second", said[1])]
    return claims


RULES = [
    rule("percent", rf"{LEFT}(?P<number>{NUMBER}){SPACE}?(?P<sign>[%％‰])", _percent, "%％‰", DIGITS, at=AT_NUMBER),
    rule("ordinal", rf"{LEFT}(?P<number>{INTEGER})(?:st|nd|rd|th|ST|ND|RD|TH)(?P<many>s)?(?![\p{{L}}\p{{N}}])", _ordinal, DIGITS, at=AT_NUMBER),
    rule("version", rf"(?<![\p{{L}}\p{{N}}])(?P<v>[vV]\.?[ ]?)(?P<number>[0-9]+(?:\.[0-9]+){{1,6}})(?![0-9])", _dotted, "vV", DIGITS),
    rule("version", rf"(?<![\p{{L}}\p{{N}}])(?<![0-9]\.)(?P<v>(?!))?(?P<number>[0-9]+(?:\.[0-9]+){{2,6}})(?![0-9])", _dotted, INNER_DOT, at=AT_NUMBER),
    rule("version", r"(?<![\p{L}\p{N}])(?P<v>[vV]\.?)(?P<number>[0-9]+(?:\.[0-9]+)?)(?![\p{L}\p{N}])", _dotted, "vV", DIGITS),
    rule("number", rf"(?<=[A-Z][\p{{L}}]*\s)(?P<number>[0-9]\.[1-9][0-9])(?P<suffix>(?!))?(?![\p{{L}}\p{{N}}%]|\.[0-9])(?<=\b(?:Python|Java|Ruby|PHP|Go|Node|Rust|Ubuntu|Django|Kubernetes)\s\S+)", lambda match, dialect: " point ".join(cardinal(int(part), dialect) for part in match["number"].split(".")), ".", at=AT_NUMBER),
    rule("magnitude", rf"{LEFT}(?P<number>{NUMBER})(?P<big>k|K|M|B|T|bn|mn|mln|tn|m)(?![\p{{L}}\p{{N}}])", _magnitude, "kKMBTbmt", DIGITS, at=AT_NUMBER),
    rule("ratio", rf"(?<![\p{{L}}\p{{N}}:.,/])(?P<first>[0-9]+(?:\.[0-9]+)?)(?P<colon>:)(?P<second>{NUMBER})(?![\p{{L}}\p{{N}}:])", _ratio, ":", at=AT_NUMBER),
    rule("series", r"(?<![\p{L}\p{N}.,])(?<![0-9]-)(?:[0-9]{1,8}(?:[-–][0-9]{1,8}){2,12}|50[-–]50|20-20|24-7|60-40|80-20|70-30)(?![\p{L}\p{N}])(?![-.,][0-9])", _chain, "-–", DIGITS, at=AT_NUMBER),
    rule("score", r"(?<![\p{L}\p{N}.,$£€-])(?P<first>[0-9]{1,2})(?P<dash>[-–])(?P<second>[0-9]{1,2})(?![\p{L}\p{N}%])(?![-–.,:][0-9])(?<=\b0[-–][0-9]{1,2}|[-–]0)", _score, "-–", "0", at=AT_NUMBER),
    rule("series", r"(?<=(?<![\p{L}\p{N}.,$])[1-9][0-9]{2})(?P<dash>[-–])(?=[1-9]00(?![\p{L}\p{N}]))(?<=[7-9][0-9]{2}[-–])", lambda _m, _d: [("dash", " ")], "-–"),
    rule("range", rf"(?<=(?P<between>(?<=\b[Bb]etween\s)[^\s–—-]{{1,12}})?(?:[0-9][%°'\"′″½¼¾]?|[0-9](?:st|nd|rd|th|[kKMBCFm])|[0-9]\s?[ap]\.?m\.?|[0-9]\s?°\s?[CF]|[0-9]\s?(?:km|cm|mm|kg|g|ft|lb|in)){SPACE}?)(?P<dash>[-‐‑–—~〜]|\.\.)(?={SPACE}?[-−+]?[$£€¥₹~]?\.?[0-9])(?<![0-9]{SPACE}-\b)", _to, DASHES + "~〜.", DIGITS),
]
