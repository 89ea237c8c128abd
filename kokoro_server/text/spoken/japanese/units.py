"""Quantities with a unit, percentages."""

from __future__ import annotations

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.cjk import LEFT, NOT_LATIN, SPACE, D, ascii_text, number_rule
from kokoro_server.text.spoken.japanese import amounts
from kokoro_server.text.spoken.japanese.amounts import AMOUNT
from kokoro_server.text.spoken.japanese.counters import COUNTERS, Counter, katakana
from kokoro_server.text.spoken.patterns import any_of

_FILE = vocabulary.load("japanese")
_UNITS = _FILE.words("units")
_MARKS = _FILE.words("unit_marks")
_UNIT_SIGNS = _FILE.words("unit_signs")
_TIMES = _FILE.words("per_time")
_POWERS = _FILE.words("powers")
_PART = rf"(?:(?:{any_of(_UNITS)})(?:[²³]|[23](?![0-9]))?|[{''.join(_UNIT_SIGNS)}])"
_UNIT = (
    rf"(?P<unit>{_PART}(?:[/／](?:{_PART}|[人日年月回時秒分]))?+{NOT_LATIN}(?![0-9²³])|"
    rf"[%％‰℃℉]|°{SPACE}?[CF]{NOT_LATIN}|[°º])"
)
_SIGN = regex.compile(rf"{D}[十百千万億兆]*{SPACE}?(?:[A-Za-zµμΩℓ°º℃℉%％‰]|[{''.join(_UNIT_SIGNS)}])")


def unit(text: str) -> Counter:
    """The counter for a unit such as km, m², m/s."""
    first, slash, second = text.replace("／", "/").partition("/")
    words = _single(first)
    if slash:
        words += _TIMES.get(second, f"パー{_single(second)}")
    return COUNTERS.get(words) or katakana(words)


def _single(text: str) -> str:
    text = _UNIT_SIGNS.get(text, text.replace(" ", ""))
    if text in _MARKS:
        return _MARKS[text]
    if len(text) > 1 and text[-1] in _POWERS:
        return _POWERS[text[-1]] + _UNITS.get(text[:-1], text[:-1])
    return _UNITS.get(text, _UNITS.get(ascii_text(text), text))


RULES = [
    number_rule(
        "unit",
        rf"{LEFT}(?P<amount>{AMOUNT}){SPACE}?{_UNIT}",
        lambda match, _dialect: amounts.say(match["amount"], unit(match["unit"])),
        _SIGN,
    )
]
