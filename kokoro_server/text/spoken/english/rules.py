"""The rules of English, in the order in which they are tried."""

from __future__ import annotations

from kokoro_server.text.spoken import markdown
from kokoro_server.text.spoken.english import (
    abbreviations,
    addresses,
    capitals,
    chat,
    counts,
    dates,
    identifiers,
    latex,
    maths,
    money,
    numbers,
    phones,
    ranges,
    roman,
    streets,
    symbols,
    times,
    words,
)
from kokoro_server.text.spoken.english.quantities import fractions, sizes, units
from kokoro_server.text.spoken.lone_signs import lone_signs
from kokoro_server.text.spoken.matching import Rule, Ruleset

_KINDS: dict[str, list[Rule]] = {
    "latex": latex.RULES,
    "markdown": markdown.rules(words.decimal, symbols.SIGNS),
    "addresses": [*addresses.RULES, *streets.RULES],
    "phones": phones.RULES,
    "chat": chat.RULES,
    "times": times.RULES,
    "dates": dates.RULES,
    "money": money.RULES,
    "units": [*sizes.RULES, *units.RULES],
    "maths": [*fractions.RULES, *maths.RULES],
    "counts": counts.RULES,
    "identifiers": identifiers.RULES,
    "ranges": ranges.RULES,
    "roman": roman.RULES,
    "abbreviations": abbreviations.RULES,
    "capitals": capitals.RULES,
    "symbols": symbols.RULES,
    "numbers": numbers.RULES,
}
RULESET = Ruleset(_KINDS, symbols.LAST, "code block.", lone_signs("english_signs"), capitals.recase)
