"""Quantities with a unit, percentages."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.cjk import AT_NUMBER, LEFT, NOT_LATIN, SPACE, D, ascii_text
from kokoro_server.text.spoken.japanese import amounts
from kokoro_server.text.spoken.japanese.amounts import AMOUNT
from kokoro_server.text.spoken.japanese.counters import COUNTERS, Counter, katakana
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

UNITS = {
    "km": "キロメートル", "m": "メートル", "cm": "センチメートル", "mm": "ミリメートル", "μm": "マイクロメートル",
    "nm": "ナノメートル", "kg": "キログラム", "Kg": "キログラム", "KG": "キログラム", "g": "グラム",
    "mg": "ミリグラム", "μg": "マイクログラム", "t": "トン", "KM": "キロメートル", "Km": "キロメートル",
    "CM": "センチメートル", "L": "リットル", "l": "リットル", "ℓ": "リットル", "ml": "ミリリットル",
    "mL": "ミリリットル", "ML": "ミリリットル", "dL": "デシリットル", "cc": "シーシー", "s": "秒", "ms": "ミリ秒",
    "ns": "ナノ秒", "min": "分", "h": "時間", "Hz": "ヘルツ", "kHz": "キロヘルツ", "MHz": "メガヘルツ",
    "GHz": "ギガヘルツ", "V": "ボルト", "kV": "キロボルト", "W": "ワット", "kW": "キロワット", "MW": "メガワット",
    "GW": "ギガワット", "kWh": "キロワットじ", "mA": "ミリアンペア", "mAh": "ミリアンペアアワー", "Ω": "オーム",
    "kΩ": "キロオーム", "Pa": "パスカル", "hPa": "ヘクトパスカル", "kPa": "キロパスカル", "MPa": "メガパスカル",
    "J": "ジュール", "kJ": "キロジュール", "N": "ニュートン", "cal": "カロリー", "kcal": "キロカロリー",
    "dB": "デシベル", "mol": "モル", "rpm": "アールピーエム", "ha": "ヘクタール", "ppm": "ピーピーエム",
    "KB": "キロバイト", "kB": "キロバイト", "MB": "メガバイト", "GB": "ギガバイト", "TB": "テラバイト",
    "PB": "ペタバイト", "bit": "ビット", "Mbps": "メガビーピーエス", "Gbps": "ギガビーピーエス",
    "kbps": "キロビーピーエス", "ft": "フィート", "inch": "インチ", "lb": "ポンド", "oz": "オンス",
    "mph": "マイル毎時", "px": "ピクセル", "fps": "エフピーエス", "ct": "カラット", "dpi": "ディーピーアイ",
}  # fmt: skip
_SYMBOLS = {
    "%": "パーセント",
    "％": "パーセント",
    "‰": "パーミル",
    "℃": "度",
    "°C": "度",
    "℉": "度",
    "°F": "度",
    "°": "度",
    "º": "度",
}
_SQUARE_SIGNS = {
    "㎞": "km", "㎝": "cm", "㎜": "mm", "㎏": "kg", "㎎": "mg", "㎡": "m2", "㎠": "cm2", "㎢": "km2", "㎥": "m3",
    "㎤": "cm3", "㎖": "ml", "㎗": "dL", "㏄": "cc", "㎐": "Hz", "㎒": "MHz", "㎓": "GHz", "㎾": "kW", "㌔": "キロ",
    "㌢": "センチ", "㍉": "ミリ", "㌘": "グラム", "㌧": "トン", "㍑": "リットル", "㌫": "パーセント", "㌦": "ドル",
    "㍍": "メートル", "㌶": "ヘクタール",
}  # fmt: skip
_TIMES = {"h": "まいじ", "s": "まいびょう", "min": "まいふん"}
_POWERS = {"²": "へいほう", "2": "へいほう", "³": "りっぽう", "3": "りっぽう"}
_PART = rf"(?:(?:{any_of(UNITS)})(?:[²³]|[23](?![0-9]))?|[{''.join(_SQUARE_SIGNS)}])"
_UNIT = (
    rf"(?P<unit>{_PART}(?:[/／](?:{_PART}|[人日年月回時秒分]))?+{NOT_LATIN}(?![0-9²³])|"
    rf"[%％‰℃℉]|°{SPACE}?[CF]{NOT_LATIN}|[°º])"
)
_SIGN = regex.compile(rf"{D}[十百千万億兆]*{SPACE}?(?:[A-Za-zμΩℓ°º℃℉%％‰]|[{''.join(_SQUARE_SIGNS)}])")


def _quantity(match: Any, _dialect: Dialect) -> SpokenWords:
    return amounts.say(match["amount"], unit(match["unit"]))


def unit(text: str) -> Counter:
    """What a unit such as km, m², m/s is as a counter."""
    first, slash, second = text.replace("／", "/").partition("/")
    words = _single(first)
    if slash:
        words += _TIMES.get(second, f"パー{_single(second)}")
    return COUNTERS.get(words) or katakana(words)


def _single(text: str) -> str:
    text = _SQUARE_SIGNS.get(text, text.replace(" ", ""))
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    if len(text) > 1 and text[-1] in _POWERS:
        return _POWERS[text[-1]] + UNITS.get(text[:-1], text[:-1])
    return UNITS.get(text, UNITS.get(ascii_text(text), text))


RULES = [rule("unit", rf"{LEFT}(?P<amount>{AMOUNT}){SPACE}?{_UNIT}", _quantity, _SIGN, at=AT_NUMBER)]
