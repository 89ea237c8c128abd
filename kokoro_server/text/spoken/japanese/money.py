"""Amounts of money."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.cjk import DASH, DASHES, LEFT, NOT_LATIN, SPACE, WIDE_DIGITS, D, number_rule
from kokoro_server.text.spoken.japanese import amounts
from kokoro_server.text.spoken.japanese.amounts import AMOUNT
from kokoro_server.text.spoken.japanese.counters import COUNTERS, Counter, katakana
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

_FILE = vocabulary.load("japanese")
SIGNS = _FILE.words("currencies")
_CODES = _FILE.words("currency_codes")
_CURRENCIES = SIGNS | _FILE.words("prefixed_currencies") | _CODES
_BEFORE = rf"(?<![A-Za-z])(?P<sign>{any_of(_CURRENCIES)}){SPACE}?"
_AT_SIGN = regex.compile(rf"(?<![A-Za-z])(?:{any_of(_CURRENCIES)}){SPACE}?(?={D})")
_ANY_SIGN = regex.compile("|".join(regex.escape(sign) for sign in [*SIGNS, *_CODES]))
_AGAIN = r"(?:円|ドル|ユーロ|ポンド|ウォン)?+"  # ¥100円 names its currency twice


def _counter(sign: str) -> Counter:
    name = _CURRENCIES[sign]
    return COUNTERS.get(name) or katakana(name)


def _money(match: Any, _dialect: Dialect) -> SpokenWords:
    return amounts.say(match["amount"], _counter(match["sign"]))


def _range(match: Any, _dialect: Dialect) -> SpokenWords:
    return [
        ("first", amounts.say(match["low"])),
        ("dash", "から"),
        ("second", amounts.say(match["amount"], _counter(match["sign"]))),
    ]


RULES = [
    rule(
        "money range",
        rf"(?P<first>{_BEFORE}(?P<low>{AMOUNT}))(?P<dash>{DASH})(?P<second>(?P=sign)?"
        rf"(?P<amount>{AMOUNT}){_AGAIN}){NOT_LATIN}",
        _range,
        _ANY_SIGN,
        DASHES,
        at=_AT_SIGN,
    ),
    rule("money", rf"{_BEFORE}(?P<amount>{AMOUNT}){_AGAIN}", _money, _ANY_SIGN, WIDE_DIGITS, at=_AT_SIGN),
    number_rule(
        "money",
        rf"{LEFT}(?P<amount>{AMOUNT}){SPACE}?(?P<sign>{any_of(SIGNS | _CODES)}){NOT_LATIN}(?!{D})",
        _money,
        _ANY_SIGN,
    ),
]
