"""Amounts of money."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.cjk import AT_NUMBER, DASH, DASHES, LEFT, NOT_LATIN, SPACE, WIDE_DIGITS, D
from kokoro_server.text.spoken.japanese import amounts
from kokoro_server.text.spoken.japanese.amounts import AMOUNT
from kokoro_server.text.spoken.japanese.counters import COUNTERS, Counter, katakana
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

SIGNS = {
    "¥": "円", "￥": "円", "$": "ドル", "＄": "ドル", "﹩": "ドル", "€": "ユーロ", "£": "ポンド", "￡": "ポンド",
    "₩": "ウォン", "￦": "ウォン", "₹": "ルピー", "₨": "ルピー", "₽": "ルーブル", "฿": "バーツ", "₫": "ドン",
    "₺": "リラ", "₴": "フリヴニャ", "₪": "シェケル", "₱": "ペソ", "₦": "ナイラ", "₿": "ビットコイン", "₣": "フラン",
    "₡": "コロン", "₵": "セディ", "₸": "テンゲ", "₮": "トゥグルグ", "₭": "キープ", "₲": "グアラニー", "₼": "マナト",
    "₾": "ラリ", "¢": "セント", "￠": "セント", "֏": "ドラム",
}  # fmt: skip
_PREFIXED = {
    "US$": "ドル", "HK$": "香港ドル", "NT$": "台湾ドル", "A$": "オーストラリアドル", "AU$": "オーストラリアドル",
    "C$": "カナダドル", "CA$": "カナダドル", "S$": "シンガポールドル", "NZ$": "ニュージーランドドル", "R$": "レアル",
    "CN¥": "人民元", "JP¥": "円",
}  # fmt: skip
_CODES = {
    "USD": "ドル", "EUR": "ユーロ", "GBP": "ポンド", "JPY": "円", "CNY": "人民元", "RMB": "人民元", "HKD": "香港ドル",
    "TWD": "台湾ドル", "KRW": "ウォン", "AUD": "オーストラリアドル", "CAD": "カナダドル", "SGD": "シンガポールドル",
    "CHF": "スイスフラン", "INR": "ルピー", "RUB": "ルーブル", "THB": "バーツ", "NZD": "ニュージーランドドル",
    "VND": "ドン", "BRL": "レアル", "BTC": "ビットコイン",
}  # fmt: skip
_CURRENCIES = SIGNS | _PREFIXED | _CODES
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
    rule(
        "money",
        rf"{LEFT}(?P<amount>{AMOUNT}){SPACE}?(?P<sign>{any_of(SIGNS | _CODES)}){NOT_LATIN}(?!{D})",
        _money,
        _ANY_SIGN,
        at=AT_NUMBER,
    ),
]
