"""Amounts: a number, with 万 or 億 perhaps, and the counter after it."""

from __future__ import annotations

import regex

from kokoro_server.text.spoken.cjk import INTEGER, NUMBER, plain
from kokoro_server.text.spoken.japanese.counters import Counter
from kokoro_server.text.spoken.japanese.words import cardinal, decimal, digits

_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "億": 10**8, "兆": 10**12}
_SCALE_WORDS = {"百": "ひゃく", "千": "せん", "万": "まん", "億": "おく", "兆": "ちょう", "十": "じゅう"}
AMOUNT = rf"(?:{NUMBER}(?:[十百千]?[万億兆](?:{INTEGER}[百千]?[万億兆]?){{0,4}}+|[百千](?![葉代々島歳石]))?+)"
_PART = regex.compile(r"(?P<number>[0-9]+)(?P<small>[十百千]?)(?P<large>[万億兆]?)")


def value(text: str) -> int | None:
    """The number that is written, with its 万 and 億; None if it is not a whole one, or begins with a zero."""
    text = plain(text)
    if "." in text or (len(text) > 1 and text[0] == "0") or len(text) > 20:
        return None
    return sum(
        int(part["number"]) * _SCALES.get(part["small"], 1) * _SCALES.get(part["large"], 1)
        for part in _PART.finditer(text)
    )


def say(text: str, counter: Counter | None = None) -> str:
    """An amount in words, with its counter."""
    number = value(text)
    if number is not None:
        return counter.say(number) if counter else cardinal(number)
    text = plain(text)
    scales = "".join(_SCALE_WORDS[each] for each in text if each in _SCALES)
    bare = "".join(each for each in text if each not in _SCALES)
    words = decimal(bare) if "." in bare or bare[0] != "0" else digits(bare)
    return f"{words}{scales}{counter.reading if counter else ''}"
