"""The rules of a language that has a table, in the order in which they are tried."""

from __future__ import annotations

from kokoro_server.text.spoken import markdown
from kokoro_server.text.spoken.lone_signs import lone_signs
from kokoro_server.text.spoken.matching import Ruleset
from kokoro_server.text.spoken.shared import (
    abbreviations,
    addresses,
    counts,
    dates,
    maths,
    money,
    numbers,
    phones,
    roman,
    symbols,
    times,
    units,
)
from kokoro_server.text.spoken.shared.table import LanguageTable


def ruleset(table: LanguageTable) -> Ruleset:
    kinds = {
        "markdown": markdown.rules(lambda number, _dialect: table.integer(number), table.words.signs),
        "addresses": addresses.rules(table),
        "phones": phones.rules(table),
        "times": times.rules(table),
        "dates": dates.rules(table),
        "money": money.rules(table),
        "units": units.rules(table),
        "maths": maths.rules(table),
        "counts": counts.rules(table),
        "ranges": numbers.ranges(table),
        "roman": roman.rules(table),
        "abbreviations": abbreviations.rules(table),
        "capitals": abbreviations.capitals(table),
        "symbols": symbols.rules(table),
        "numbers": numbers.rules(table),
    }
    return Ruleset(kinds, symbols.last(table), table.words.phrases.code_block, lone_signs(table.name))
