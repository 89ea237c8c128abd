"""Quantities with a unit, percentages."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.chinese.money import MAGNITUDE
from kokoro_server.text.spoken.chinese.words import count, decimal
from kokoro_server.text.spoken.cjk import (
    DASH,
    DASHES,
    LEFT,
    MINUS,
    MINUSES,
    NOT_LATIN,
    NUMBER,
    SPACE,
    D,
    ascii_text,
    number_rule,
)
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

_FILE = vocabulary.load("chinese")
_UNITS = _FILE.words("units")
_SQUARED = _FILE.words("square_units")
_CUBED = _FILE.words("cubic_units")
_POWERS = {"²": _SQUARED, "2": _SQUARED, "³": _CUBED, "3": _CUBED}
_UNIT_SIGNS = _FILE.words("unit_signs")
_LETTERS = any_of(unit for unit in _UNITS if unit[-1].isalpha() and unit != "℃")
_PART = rf"(?:(?:{_LETTERS})(?:[²³]|[23](?![0-9]))?|[{''.join(_UNIT_SIGNS)}])"
_COMPOUND = rf"{_PART}(?:[/／·](?:{_PART}|[人天年月日次小时秒分]))?+"
_UNIT = rf"(?P<unit>(?:{_COMPOUND}){NOT_LATIN}(?![0-9²³])|℃|℉|°{SPACE}?[CF]{NOT_LATIN}|[°º])"
_DEGREES = regex.compile(rf"{NUMBER}{SPACE}?(?:[℃℉]|°{SPACE}?[CF])")
_SIGN = regex.compile(rf"{D}{SPACE}?(?:[A-Za-zµμΩ°º℃℉]|[{''.join(_UNIT_SIGNS)}])")


def _quantity(match: Any, _dialect: Dialect) -> SpokenWords:
    scale = match["scale"] or ""
    return f"{count(match['number'])}{scale}{unit(match['unit'])}"


def unit(text: str) -> str:
    """The words for a unit such as km, m², m/s."""
    first, slash, second = text.replace("／", "/").replace("·", "/").partition("/")
    words = _single(first)
    return f"{words}每{_single(second)}" if slash else words


def _single(text: str) -> str:
    text = _UNIT_SIGNS.get(text, text.replace(" ", ""))
    powers = _POWERS.get(text[-1])
    if powers and len(text) > 1:
        return powers.get(text[:-1], f"{_UNITS.get(text[:-1], text[:-1])}{'平方' if powers is _SQUARED else '立方'}")
    return _UNITS.get(text, _UNITS.get(ascii_text(text), text))


def _share(number: str, sign: str) -> str:
    words = "百" if number in ("100", "１００") else decimal(number)
    return f"{'千' if sign == '‰' else '万' if sign == '‱' else '百'}分之{words}"


def _per_cents(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("first", _share(match["first"], match["sign"])), ("dash", "到"), ("second", decimal(match["number"]))]


RULES = [
    number_rule(
        "percent",
        rf"{LEFT}(?P<first>{NUMBER})(?P<dash>{DASH})(?P<second>(?P<number>{NUMBER}){SPACE}?(?P<sign>[%％‰]))",
        _per_cents,
        "%％‰",
        DASHES,
    ),
    number_rule(
        "percent",
        rf"{LEFT}(?P<number>{NUMBER}){SPACE}?(?P<sign>[%％‰‱])",
        lambda match, _dialect: _share(match["number"], match["sign"]),
        "%％‰‱",
    ),
    rule(
        "minus",
        rf"(?<![\p{{Latin}}0-9０-９°℃%])(?P<minus>{MINUS})(?={D})",
        lambda match, _dialect: [("minus", "零下")] if _DEGREES.match(match.string, match.end("minus")) else None,
        MINUSES,
        "℃℉°",
    ),
    number_rule("unit", rf"{LEFT}(?P<number>{NUMBER})(?P<scale>{MAGNITUDE})?+{SPACE}?{_UNIT}", _quantity, _SIGN),
    rule(
        "per",
        rf"(?<=[元块人次]){SPACE}?[/／]{SPACE}?(?P<unit>{_PART}){NOT_LATIN}",
        lambda match, _dialect: f"每{unit(match['unit'])}",
        "/／",
    ),
    rule("per", r"(?<=[元块人次米克吨升])[/／](?=[人天年月日次小时秒分个位平斤公克吨米升件只])", "每", "/／"),
]
