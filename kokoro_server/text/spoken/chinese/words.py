"""Chinese numbers in words."""

from __future__ import annotations

from kokoro_server.text.spoken.cjk import plain

NAMES = "零一二三四五六七八九"
_LONGEST_CARDINAL = 16  # digits; a longer number is said digit by digit
_TWICE = {"二百": "两百", "二千": "两千", "二万": "两万", "二亿": "两亿"}


def cardinal(number: int) -> str:
    words = _cardinal(number)
    if (
        10 <= number < 20
        or words.startswith(("一十万", "一十亿"))
        or (words[:2] == "一十" and words[3:4] in ("万", "亿"))
    ):
        return words[1:]
    return _TWICE.get(words[:2], words[:2]) + words[2:]


def _cardinal(number: int) -> str:
    for scale, name in ((10**8, "亿"), (10**4, "万"), (1000, "千"), (100, "百"), (10, "十")):
        high, low = divmod(number, scale)
        if high:
            gap = "零" if 0 < low < scale // 10 else ""
            return f"{_cardinal(high)}{name}{gap}{_cardinal(low) if low else ''}"
    return NAMES[number]


def digits(text: str, one: str = "一") -> str:
    """Each digit by itself."""
    return "".join(one if each == "1" else NAMES[int(each)] for each in text if each.isdecimal())


def decimal(text: str) -> str:
    """A number as it is written: `1,234.5`, `007`."""
    whole, _, fraction = plain(text).partition(".")
    by_digit = len(whole) > _LONGEST_CARDINAL or (len(whole) > 1 and whole[0] == "0")
    words = digits(whole) if by_digit else cardinal(int(whole))
    return f"{words}点{digits(fraction)}" if fraction else words


def count(text: str) -> str:
    """A number of things: as `decimal`, but two of them are 两."""
    return "两" if plain(text) == "2" else decimal(text)
