"""Numbers that no other rule has read, and the dash between two of them."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DASH, DASHES, SPACE, any_of, follows
from kokoro_server.text.spoken.shared.patterns import (
    DIGITS,
    LEFT,
    RIGHT,
    D,
    counted_before,
    noun_after,
    number_pattern,
    number_rule,
    of_noun,
)
from kokoro_server.text.spoken.shared.table import LanguageTable


def rules(table: LanguageTable) -> list[Rule]:
    counted = counted_before(table)

    def read(match: Any, _dialect: Dialect) -> SpokenWords:
        text = match[0]
        noun = "" if follows(match, counted) else noun_after(table, match)
        if len(text) == 4 and text.isdecimal() and int(text[0]) > 0:
            return table.year(int(text), noun)
        following = of_noun(table, text, noun)
        if following != noun:
            end = match.string.index(noun, match.end()) + len(noun)
            return [((match.start(), end), f"{table.number(text, noun)} {following}")]
        return table.number(text, noun)

    return [
        number_rule("number", rf"{LEFT}{number_pattern(table)}{RIGHT}", read),
        rule(
            "number",
            rf"(?<!{D}[.,]){number_pattern(table)}(?![.,]{D})",
            lambda match, _d: table.number(match[0]),
            DIGITS,
        ),
    ]


def ranges(table: LanguageTable) -> list[Rule]:
    """A dash between two numbers, each of which may have a unit. Between three it is no range."""
    unit = rf"(?:%|[€$£₹]|°{SPACE}?[CF]?|[ºª]|[hH]{D}*|{any_of(table.words.units)})"
    score = regex.compile(rf"{D}+(?:{table.words.patterns.after_scores})")
    sign = any_of(sign for sign in table.words.currencies if not sign.islower())
    return [
        rule(
            "range",
            rf"(?P<dash>{DASH}|~)(?<={D}(?:{SPACE}?{unit})?{SPACE}?(?:{DASH}|~))(?<!{D}{DASH}{D}{{1,6}}{DASH})"
            rf"(?={SPACE}?(?:{sign})?{SPACE}?(?!0{D}){D}++(?!{DASH}{D}))",
            lambda match, _dialect: [
                ("dash", " " if score.match(match.string, match.end()) else table.words.phrases.to)
            ],
            DASHES + "~",
            DIGITS,
        )
    ]
