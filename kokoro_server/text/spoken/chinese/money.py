"""Amounts of money."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.chinese.words import count
from kokoro_server.text.spoken.cjk import DASH, DASHES, LEFT, NOT_LATIN, NUMBER, SPACE, WIDE_DIGITS, D, number_rule
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

_FILE = vocabulary.load("chinese")
SIGNS = _FILE.words("currencies")
_CODES = _FILE.words("currency_codes")
_CURRENCIES = SIGNS | _FILE.words("prefixed_currencies") | _CODES
MAGNITUDE = r"(?:[十百千]?(?:万亿|万|亿)|[百千](?=[元块美欧英日港韩]))"
_BEFORE = rf"(?<![A-Za-z])(?P<sign>{any_of(_CURRENCIES)}){SPACE}?"
_AT_SIGN = regex.compile(rf"(?<![A-Za-z])(?:{any_of(_CURRENCIES)}){SPACE}?(?={D})")
_ANY_SIGN = regex.compile("|".join(regex.escape(sign) for sign in [*SIGNS, *_CODES]))
# ¥100元 names its currency twice.
_AGAIN = r"(?:人民币|元|美元|欧元|英镑|日元|港元|港币|韩元)?+"


def _range(match: Any, _dialect: Dialect) -> SpokenWords:
    words = _amount(match["number"], match["scale"])
    return [
        ("first", _amount(match["low"], match["low_scale"])),
        ("dash", "到"),
        ("second", f"{words}{_CURRENCIES[match['sign']]}"),
    ]


def _amount(number: str, scale: str | None) -> str:
    return f"{count(number)}{scale or ''}"


RULES = [
    rule(
        "money range",
        rf"(?P<first>{_BEFORE}(?P<low>{NUMBER})(?P<low_scale>{MAGNITUDE})?+)(?P<dash>{DASH})(?P<second>(?:(?P=sign))?"
        rf"(?P<number>{NUMBER})(?P<scale>{MAGNITUDE})?+{_AGAIN}){NOT_LATIN}",
        _range,
        _ANY_SIGN,
        DASHES,
        at=_AT_SIGN,
    ),
    rule(
        "money",
        rf"{_BEFORE}(?P<number>{NUMBER})(?P<scale>{MAGNITUDE})?+{_AGAIN}",
        lambda match, _dialect: f"{_amount(match['number'], match['scale'])}{_CURRENCIES[match['sign']]}",
        _ANY_SIGN,
        WIDE_DIGITS,
        at=_AT_SIGN,
    ),
    number_rule(
        "money",
        rf"{LEFT}(?P<number>{NUMBER})(?P<scale>{MAGNITUDE})?+{SPACE}?(?P<sign>{any_of(SIGNS | _CODES)}){NOT_LATIN}"
        rf"(?!{D})",
        lambda match, _dialect: f"{_amount(match['number'], match['scale'])}{_CURRENCIES[match['sign']]}",
        _ANY_SIGN,
    ),
    number_rule(
        "money",
        rf"{LEFT}(?P<number>{NUMBER})(?=(?:块|元)(?:钱)?)",
        lambda match, _dialect: [("number", count(match["number"]))],
        "块元",
    ),
]
