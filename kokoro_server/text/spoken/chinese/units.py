"""Quantities with a unit, percentages."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.chinese.money import MAGNITUDE
from kokoro_server.text.spoken.chinese.words import count, decimal
from kokoro_server.text.spoken.cjk import (
    AT_NUMBER,
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
)
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

UNITS = {
    "km": "公里", "m": "米", "cm": "厘米", "mm": "毫米", "dm": "分米", "μm": "微米", "um": "微米", "nm": "纳米",
    "kg": "公斤", "Kg": "公斤", "KG": "公斤", "g": "克", "mg": "毫克", "μg": "微克", "t": "吨", "KM": "公里",
    "CM": "厘米", "MM": "毫米", "Km": "公里", "L": "升", "l": "升", "ml": "毫升", "mL": "毫升", "ML": "毫升",
    "dL": "分升", "cc": "毫升", "s": "秒", "ms": "毫秒", "μs": "微秒", "ns": "纳秒", "min": "分钟", "h": "小时",
    "hr": "小时", "d": "天", "Hz": "赫兹", "kHz": "千赫", "KHz": "千赫", "MHz": "兆赫", "GHz": "吉赫", "V": "伏",
    "kV": "千伏", "mV": "毫伏", "W": "瓦", "kW": "千瓦", "KW": "千瓦", "MW": "兆瓦", "GW": "吉瓦", "kWh": "千瓦时",
    "mA": "毫安", "mAh": "毫安时", "Ah": "安时", "Ω": "欧姆", "kΩ": "千欧", "Pa": "帕", "kPa": "千帕", "MPa": "兆帕",
    "hPa": "百帕", "J": "焦耳", "kJ": "千焦", "N": "牛", "cal": "卡", "kcal": "千卡", "dB": "分贝", "mol": "摩尔",
    "mmol": "毫摩尔", "rpm": "转每分", "ha": "公顷", "mmHg": "毫米汞柱", "Mbps": "兆比特每秒", "Gbps": "吉比特每秒",
    "kbps": "千比特每秒", "Kbps": "千比特每秒", "mph": "英里每小时", "ft": "英尺", "inch": "英寸", "lb": "磅",
    "lbs": "磅", "oz": "盎司", "mile": "英里", "miles": "英里", "℃": "摄氏度", "°C": "摄氏度", "℉": "华氏度",
    "°F": "华氏度", "°": "度", "º": "度",
}  # fmt: skip
_SQUARED = {"km": "平方公里", "m": "平方米", "cm": "平方厘米", "mm": "平方毫米", "dm": "平方分米"}
_CUBED = {"km": "立方公里", "m": "立方米", "cm": "立方厘米", "mm": "立方毫米", "dm": "立方分米"}
_POWERS = {"²": _SQUARED, "2": _SQUARED, "³": _CUBED, "3": _CUBED}
_SQUARE_SIGNS = {
    "㎞": "km", "㎝": "cm", "㎜": "mm", "㎏": "kg", "㎎": "mg", "㎡": "m2", "㎠": "cm2", "㎢": "km2", "㎥": "m3",
    "㎤": "cm3", "㎖": "ml", "㎘": "kl", "㏄": "cc", "㎐": "Hz", "㎒": "MHz", "㎓": "GHz", "㎾": "kW",
}  # fmt: skip
_LETTERS = any_of(unit for unit in UNITS if unit[-1].isalpha() and unit != "℃")
_PART = rf"(?:(?:{_LETTERS})(?:[²³]|[23](?![0-9]))?|[{''.join(_SQUARE_SIGNS)}])"
_COMPOUND = rf"{_PART}(?:[/／·](?:{_PART}|[人天年月日次小时秒分]))?+"
_UNIT = rf"(?P<unit>(?:{_COMPOUND}){NOT_LATIN}(?![0-9²³])|℃|℉|°{SPACE}?[CF]{NOT_LATIN}|[°º])"
_DEGREES = regex.compile(rf"{NUMBER}{SPACE}?(?:[℃℉]|°{SPACE}?[CF])")
_SIGN = regex.compile(rf"{D}{SPACE}?(?:[A-Za-zμΩ°º℃℉]|[{''.join(_SQUARE_SIGNS)}])")


def _quantity(match: Any, _dialect: Dialect) -> SpokenWords:
    scale = match["scale"] or ""
    return f"{count(match['number'])}{scale}{unit(match['unit'])}"


def unit(text: str) -> str:
    """The words for a unit such as km, m², m/s."""
    first, slash, second = text.replace("／", "/").replace("·", "/").partition("/")
    words = _single(first)
    return f"{words}每{_single(second)}" if slash else words


def _single(text: str) -> str:
    text = _SQUARE_SIGNS.get(text, text.replace(" ", ""))
    powers = _POWERS.get(text[-1])
    if powers and len(text) > 1:
        return powers.get(text[:-1], f"{UNITS.get(text[:-1], text[:-1])}{'平方' if powers is _SQUARED else '立方'}")
    return UNITS.get(text, UNITS.get(ascii_text(text), text))


def _per_cent(match: Any, _dialect: Dialect) -> SpokenWords:
    return _share(match["number"], match["sign"])


def _share(number: str, sign: str) -> str:
    words = "百" if number in ("100", "１００") else decimal(number)
    return f"{'千' if sign == '‰' else '万' if sign == '‱' else '百'}分之{words}"


def _per_cents(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("first", _share(match["first"], match["sign"])), ("dash", "到"), ("second", decimal(match["number"]))]


def _below_zero(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("minus", "零下")] if _DEGREES.match(match.string, match.end("minus")) else None


RULES = [
    rule(
        "percent",
        rf"{LEFT}(?P<first>{NUMBER})(?P<dash>{DASH})(?P<second>(?P<number>{NUMBER}){SPACE}?(?P<sign>[%％‰]))",
        _per_cents,
        "%％‰",
        DASHES,
        at=AT_NUMBER,
    ),
    rule("percent", rf"{LEFT}(?P<number>{NUMBER}){SPACE}?(?P<sign>[%％‰‱])", _per_cent, "%％‰‱", at=AT_NUMBER),
    rule("minus", rf"(?<![\p{{Latin}}0-9０-９°℃%])(?P<minus>{MINUS})(?={D})", _below_zero, MINUSES, "℃℉°"),
    rule(
        "unit",
        rf"{LEFT}(?P<number>{NUMBER})(?P<scale>{MAGNITUDE})?+{SPACE}?{_UNIT}",
        _quantity,
        _SIGN,
        at=AT_NUMBER,
    ),
    rule(
        "per",
        rf"(?<=[元块人次]){SPACE}?[/／]{SPACE}?(?P<unit>{_PART}){NOT_LATIN}",
        lambda match, _dialect: f"每{unit(match['unit'])}",
        "/／",
    ),
    rule("per", r"(?<=[元块人次米克吨升])[/／](?=[人天年月日次小时秒分个位平斤公克吨米升件只])", "每", "/／"),
]
