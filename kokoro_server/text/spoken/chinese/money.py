"""Amounts of money."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.chinese.words import count
from kokoro_server.text.spoken.cjk import AT_NUMBER, DASH, DASHES, LEFT, NOT_LATIN, NUMBER, SPACE, WIDE_DIGITS, D
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

SIGNS = {
    "¥": "元", "￥": "元", "$": "美元", "＄": "美元", "﹩": "美元", "€": "欧元", "£": "英镑", "￡": "英镑",
    "₩": "韩元", "￦": "韩元", "₹": "卢比", "₨": "卢比", "₽": "卢布", "฿": "泰铢", "₫": "越南盾", "₺": "里拉",
    "₴": "格里夫纳", "₪": "谢克尔", "₱": "比索", "₦": "奈拉", "₿": "比特币", "₣": "法郎", "₡": "科朗", "₵": "塞地",
    "₸": "坚戈", "₮": "图格里克", "₭": "基普", "₲": "瓜拉尼", "₼": "马纳特", "₾": "拉里", "¢": "美分", "￠": "美分",
    "֏": "德拉姆",
}  # fmt: skip
_PREFIXED = {
    "US$": "美元", "USD$": "美元", "HK$": "港元", "NT$": "新台币", "A$": "澳元", "AU$": "澳元", "C$": "加元",
    "CA$": "加元", "S$": "新加坡元", "NZ$": "新西兰元", "R$": "雷亚尔", "CN¥": "元", "RMB¥": "元", "JP¥": "日元",
}  # fmt: skip
_CODES = {
    "USD": "美元", "EUR": "欧元", "GBP": "英镑", "JPY": "日元", "CNY": "元人民币", "RMB": "元人民币", "HKD": "港元",
    "TWD": "新台币", "KRW": "韩元", "AUD": "澳元", "CAD": "加元", "SGD": "新加坡元", "CHF": "瑞士法郎", "INR": "卢比",
    "RUB": "卢布", "THB": "泰铢", "NZD": "新西兰元", "MYR": "林吉特", "VND": "越南盾", "BRL": "雷亚尔",
}  # fmt: skip
CURRENCIES = SIGNS | _PREFIXED | _CODES
MAGNITUDE = r"(?:[十百千]?(?:万亿|万|亿)|[百千](?=[元块美欧英日港韩]))"
_BEFORE = rf"(?<![A-Za-z])(?P<sign>{any_of(CURRENCIES)}){SPACE}?"
_AT_SIGN = regex.compile(rf"(?<![A-Za-z])(?:{any_of(CURRENCIES)}){SPACE}?(?={D})")
_ANY_SIGN = regex.compile("|".join(regex.escape(sign) for sign in [*SIGNS, *_CODES]))
# ¥100元 names its currency twice.
_AGAIN = r"(?:人民币|元|美元|欧元|英镑|日元|港元|港币|韩元)?+"


def _before(match: Any, _dialect: Dialect) -> SpokenWords:
    return f"{_amount(match['number'], match['scale'])}{CURRENCIES[match['sign']]}"


def _range(match: Any, _dialect: Dialect) -> SpokenWords:
    words = _amount(match["number"], match["scale"])
    return [
        ("first", _amount(match["low"], match["low_scale"])),
        ("dash", "到"),
        ("second", f"{words}{CURRENCIES[match['sign']]}"),
    ]


def _after(match: Any, _dialect: Dialect) -> SpokenWords:
    return f"{_amount(match['number'], match['scale'])}{CURRENCIES[match['sign']]}"


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
        _before,
        _ANY_SIGN,
        WIDE_DIGITS,
        at=_AT_SIGN,
    ),
    rule(
        "money",
        rf"{LEFT}(?P<number>{NUMBER})(?P<scale>{MAGNITUDE})?+{SPACE}?(?P<sign>{any_of(SIGNS | _CODES)}){NOT_LATIN}"
        rf"(?!{D})",
        _after,
        _ANY_SIGN,
        at=AT_NUMBER,
    ),
    rule(
        "money",
        rf"{LEFT}(?P<number>{NUMBER})(?=(?:块|元)(?:钱)?)",
        lambda match, _dialect: [("number", count(match["number"]))],
        "块元",
        at=AT_NUMBER,
    ),
]
