"""The rules of Japanese, in the order in which they are tried."""

from __future__ import annotations

from kokoro_server.text.spoken import cjk, markdown
from kokoro_server.text.spoken.japanese import dates, money, numbers, symbols, units
from kokoro_server.text.spoken.japanese.words import decimal, digits
from kokoro_server.text.spoken.lone_signs import lone_signs
from kokoro_server.text.spoken.matching import Rule, Ruleset

_KINDS: dict[str, list[Rule]] = {
    "markdown": markdown.rules(lambda text, _dialect: decimal(text), {sign: symbols.SIGNS[sign] for sign in "&<>"}),
    "addresses": cjk.addresses(symbols.MARKS, digits),
    "phones": numbers.PHONES,
    "times": dates.TIMES,
    "dates": dates.DATES,
    "money": money.RULES,
    "units": units.RULES,
    "counts": numbers.COUNTS,
    "maths": [*symbols.MATHS, *numbers.MATHS],
    "ranges": numbers.RANGES,
    "identifiers": numbers.IDENTIFIERS,
    "roman": numbers.ROMAN,
    "capitals": cjk.LETTERS,
    "symbols": symbols.RULES,
    "numbers": numbers.NUMBERS,
}
RULESET = Ruleset(_KINDS, symbols.LAST, "コードブロック。", lone_signs("japanese"))
