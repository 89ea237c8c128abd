"""Ordinals, percentages, magnitudes and versions."""

from __future__ import annotations

from typing import Any

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import INNER_DOT, SPACE, any_of, two_words
from kokoro_server.text.spoken.shared.patterns import (
    DIGITS,
    LEFT,
    OWN_DOT,
    WORD_END,
    D,
    noun_after,
    number_pattern,
    number_rule,
)
from kokoro_server.text.spoken.shared.table import LanguageTable


def rules(table: LanguageTable) -> list[Rule]:
    number = number_pattern(table)
    point = f" {table.words.phrases.point} "
    letters = [big for big in table.words.magnitudes if len(big) < 4 and big not in ("mil", "अरब")]

    def percent(match: Any, _dialect: Dialect) -> SpokenWords:
        sign = table.words.signs["‰" if match["sign"] == "‰" else "%"]
        return two_words(match, "number", table.number(match["number"]), "sign", sign)

    def ordinal(match: Any, _dialect: Dialect) -> SpokenWords:
        return table.ordinal(int(match["number"]), match["ending"], noun_after(table, match))

    def magnitude(match: Any, _dialect: Dialect) -> SpokenWords:
        big = table.words.magnitudes[match["big"]].word
        name = table.noun(big, match["number"])
        return f"{table.number(match['number'], name)} {name}"

    def version(match: Any, _dialect: Dialect) -> SpokenWords:
        said = point.join(table.integer(part) for part in match["number"].split("."))
        return f"{table.spell(match['v'])} {said}" if match["v"] else said

    return [
        number_rule("percent", rf"{LEFT}(?P<number>{number}){SPACE}?(?P<sign>[%％‰])", percent, "%％‰"),
        number_rule(
            "ordinal",
            rf"{LEFT}(?P<number>{D}{{1,4}})(?P<ending>{table.words.patterns.ordinal_endings}){WORD_END}{OWN_DOT}?",
            ordinal,
        ),
        rule(
            "version",
            r"(?<![\p{L}\p{N}])(?P<v>[vV])(?P<number>[0-9]+(?:\.[0-9]+){0,6})(?![\p{L}\p{N}])",
            version,
            "vV",
            DIGITS,
        ),
        number_rule(
            "version",
            rf"{LEFT}(?P<v>(?!))?(?P<number>[0-9]+(?:\.[0-9]+){{2,6}})(?![\p{{L}}\p{{N}}])",
            lambda match, dialect: None if _is_grouped(match["number"]) else version(match, dialect),
            INNER_DOT,
        ),
        number_rule(
            "decade",
            rf"{LEFT}(?P<number>{D}{{1,3}}0)['’]s{WORD_END}",
            lambda match, _dialect: table.integer(match["number"]),
            "'’",
        ),
        number_rule(
            "resolution",
            rf"{LEFT}(?P<number>[248])K{WORD_END}",
            lambda match, _dialect: f"{table.integer(match['number'])} {table.spell('K')}",
            "K",
        ),
        number_rule("magnitude", rf"{LEFT}(?P<number>{number}){SPACE}?(?P<big>{any_of(letters)}){WORD_END}", magnitude),
    ]


def _is_grouped(text: str) -> bool:
    first, *groups = text.split(".")
    return 0 < len(first) < 4 and all(len(group) == 3 for group in groups)
