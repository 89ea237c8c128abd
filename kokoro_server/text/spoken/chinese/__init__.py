"""The rules of Mandarin Chinese, in the order in which they are tried."""

from __future__ import annotations

from kokoro_server.text.spoken import cjk, markdown
from kokoro_server.text.spoken.chinese import dates, maths, money, numbers, symbols, units
from kokoro_server.text.spoken.chinese.words import decimal, digits
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
    "maths": maths.MATHS,
    "ranges": maths.RANGES,
    "identifiers": numbers.IDENTIFIERS,
    "roman": numbers.ROMAN,
    "capitals": cjk.LETTERS,
    "symbols": symbols.RULES,
    "counts": numbers.COUNTS,
    "numbers": numbers.NUMBERS,
}
RULESET = Ruleset(_KINDS, symbols.LAST, "代码块。", lone_signs("chinese"))
