"""Ratios, scores, ranges and numbers side by side."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken.english.patterns import NUMBER, number_rule
from kokoro_server.text.spoken.english.words import decimal, in_pairs, letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DASHES, DIGITS, SPACE


def _chain(match: Any, dialect: Dialect) -> SpokenWords:
    """4-4-2, 1-2-3, 50-50: numbers side by side."""
    return " ".join(in_pairs(part, dialect) for part in match[0].replace("–", "-").split("-"))


def _ratio(match: Any, dialect: Dialect) -> SpokenWords:
    return [("first", decimal(match["first"], dialect)), ("colon", "to"), ("second", decimal(match["second"], dialect))]


def _score(match: Any, dialect: Dialect) -> SpokenWords:
    zero = "nil" if dialect.british else "zero"
    said = [zero if each == "0" else decimal(each, dialect) for each in (match["first"], match["second"])]
    claims: list[tuple[Where, str]] = [
        ("first", said[0]),
        ("dash", "to" if not dialect.british else " "),
        ("second", said[1]),
    ]
    return claims


RULES = [
    number_rule(
        "ratio",
        rf"(?<![\p{{L}}\p{{N}}:.,/])(?P<first>[0-9]+(?:\.[0-9]+)?)(?P<colon>:)(?P<second>{NUMBER})"
        rf"(?![\p{{L}}\p{{N}}:])",
        _ratio,
        ":",
    ),
    # A 1/4-20 bolt, 10-32 x 3/4" screws: the size and the threads.
    rule(
        "series",
        r"(?<=(?<![0-9.,$])(?:[468]|10|12|[135]/(?:4|8|16|2)))-(?=(?:16|18|20|24|28|32|40)\s(?:x\b|(?:machine )?"
        r"(?:bolts?|screws?|threads?|taps?|nuts?|UNC|UNF)\b))",
        " ",
        "-",
        DIGITS,
    ),
    # 40-30 in tennis.
    number_rule(
        "score",
        r"(?<![\p{L}\p{N}.,-])(?:15|30|40)(?P<dash>[-–])(?:15|30|40)(?![\p{L}\p{N}%-])(?:(?<=\b(?:love|deuce|serve|serving|ace)\b"
        r"[^.\n]{1,40})|(?=[^.\n]{0,40}\b(?:love|deuce|game point|break point|ad-?(?:in|out))\b))",
        lambda _m, _d: [("dash", " ")],
        "-–",
        re.compile("love|deuce|serv|ace|point"),
    ),
    number_rule(
        "series",
        r"(?<![\p{L}\p{N}.,])(?<![0-9]-)(?:[0-9]{1,8}(?:[-–][0-9]{1,8}){2,12}|50[-–]50|20-20|24-7|60-40|80-20|"
        r"70-30)(?![\p{L}\p{N}])(?![-.,][0-9])",
        _chain,
        "-–",
    ),
    number_rule(
        "score",
        r"(?<![\p{L}\p{N}.,-])(?P<first>[1-9][0-9]{1,2})(?P<dash>[-–])(?P<second>[0-9])(?= (?:at|in|off|from) (?:tea|"
        r"lunch|stumps|the close|[0-9.]+ overs))|(?<=\btook )(?P<first>[0-9]{1,2})(?P<dash>[-–])(?P<second>[0-9]{1,3})"
        r"(?= (?:in|from|off) [0-9.]+ overs)",
        lambda match, dialect: [
            ("first", decimal(match["first"], dialect)),
            ("dash", "for"),
            ("second", decimal(match["second"], dialect)),
        ],
        "-–",
    ),
    # A 12-3 record; they are 12-3 on the season.
    number_rule(
        "record",
        r"(?<![\p{L}\p{N}.,$£€-])[0-9]{1,3}(?P<dash>[-–])[0-9]{1,3}(?= record\b)|"
        r"(?<=\b(?:is|are|was|were|went|finished|now|to|at) )[0-9]{1,3}(?P<dash>[-–])[0-9]{1,3}"
        r"(?= (?:overall|(?:on the|this|last|for the) (?:season|year))\b)",
        lambda _m, _d: [("dash", "and")],
        "-–",
        re.compile("record|overall|season|year"),
    ),
    number_rule(
        "score",
        r"(?<![\p{L}\p{N}.,$£€-])(?P<first>[0-9]{1,2})(?P<dash>[-–])(?P<second>[0-9]{1,2})(?![\p{L}\p{N}%])"
        r"(?![-–.,:][0-9])(?<=\b0[-–][0-9]{1,2}|[-–]0)",
        _score,
        "-–",
        "0",
    ),
    rule("series", r"(?<=\b(?:Boeing|Airbus|Embraer) [A-Z]?[0-9]{3}|\b7[0-8]7)-(?=[0-9]{1,3}\b)", " ", "-", DIGITS),
    rule(
        "series",
        r"(?<=(?<![\p{L}\p{N}.,$])[1-9][0-9]{2})(?P<dash>[-–])(?=[1-9]00(?![\p{L}\p{N}]))(?<=[7-9][0-9]{2}[-–])",
        lambda _m, _d: [("dash", " ")],
        "-–",
    ),
    rule(
        "range",
        r"(?<![\p{L}\p{N}])(?P<first>\p{Lu}|XX?[SL])(?P<dash>–|(?<=A)-(?=Z)|-(?=X{1,3}L\b))(?P<second>\p{Lu}|X{1,3}L)"
        r"(?![\p{L}\p{N}])",
        lambda match, dialect: [
            ("first", letters(match["first"], dialect)),
            ("dash", "to"),
            ("second", letters(match["second"], dialect)),
        ],
        "–-",
    ),
    rule("range", r"(?<=[0-9]0s)[-–](?=[0-9]{2,4}s\b)", "to", "-–", DIGITS),
    rule("series", r"(?<=\b24)/7/(?=365\b)", " seven ", "/", "7"),
    rule(
        "range",
        rf"(?<=(?P<between>(?<=\b[Bb]etween\s)[^\s–—-]{{1,12}})?(?:[0-9][%°'\"′″½¼¾]?|[0-9](?:st|nd|rd|th|"
        rf"[kKMBCFm])|[0-9]\s?[ap]\.?m\.?|[0-9]\s?°\s?[CF]|[0-9]\s?(?:km|cm|mm|kg|g|ft|lb|in)|[½⅓⅔¼¾⅛]){SPACE}?)"
        rf"(?P<dash>[-‐‑–—~〜]|\.\.)(?={SPACE}?[-−+]?[$£€¥₹~]?\.?[0-9½⅓⅔¼¾⅛])(?<![0-9]{SPACE}-\b)",
        lambda match, _dialect: [("dash", "and" if match["between"] is not None else "to")],
        DASHES + "~〜.",
        DIGITS + "½⅓⅔¼¾⅛",
    ),
    rule("range", r"(?<=[0-9])–(?=\p{Lu}[0-9])|(?<=\([\p{L}0-9]\))[–-](?=\([\p{L}0-9]\))", "to", "–-"),
]
