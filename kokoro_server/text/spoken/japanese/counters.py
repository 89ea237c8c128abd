"""Counters, whose sound and that of the number before them change with each other: いっぽん, にほん, さんぼん."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.japanese.words import cardinal, shortened

_FILE = vocabulary.load("japanese")
# For which last part of a number its end is cut short and the counter's beginning hardened or voiced.
_SHORT = {
    "": (), "か": (1, 6, 8, 10, 100), "さ": (1, 8, 10), "た": (1, 8, 10), "は": (1, 6, 8, 10, 100), "カ": (10,),
}  # fmt: skip
_VOICED = str.maketrans("かきくけこさしすせそはひふへほ", "がぎぐげござじずぜぞばびぶべぼ")
_HARD = str.maketrans("はひふへほ", "ぱぴぷぺぽ")
_KATAKANA = {code: code + 0x60 for code in range(ord("ぁ"), ord("ゔ"))}
# In hiragana G2P would take these apart, as it does with はち, whose は it takes for a particle.
_MISREAD = frozenset(_FILE.list("misread_counters"))
_LONG_VOWEL = re.compile(
    "(?<=[うくすつぬふむゆるぐずぶぷゅおこそとのほもよろごぞどぼぽょ])う|(?<=[えけせてねへめれげぜでべぺ])い"
)


@dataclass(frozen=True, slots=True)
class Counter:
    reading: str
    row: str = ""  # of the kana that it begins with, where that matters
    three: str = ""  # how it begins after さん and せん: voiced (ぼん) or hard (ぷん)
    ones: dict[int, str] = field(default_factory=dict)  # last digits that are said in another way: 4 よ
    whole: dict[int, str] = field(default_factory=dict)  # numbers that are said in another way, with their counter

    def say(self, number: int) -> str:
        if number in self.whole:
            return self.whole[number]
        before, _, last = self._say(number).rpartition(" ")
        if _last_part(number) == 8 or self.reading in _MISREAD or "びゃっ" in last or "ぴゃっ" in last:
            last = in_katakana(last)
        return f"{before} {last}".strip()

    def _say(self, number: int) -> str:
        words, last = cardinal(number), _last_part(number)
        if last in self.ones:
            before = words.rpartition(" ")[0]
            return f"{before} {self.ones[last]}{self.reading}".strip()
        if last in _SHORT[self.row]:
            return shortened(words) + self._beginning(_HARD)
        if last in (3, 1000) and self.three == "voiced":
            return words + self._beginning(_VOICED)
        if last in (3, 4, 1000) and self.three == "hard":
            return words + self._beginning(_HARD)
        return words + self.reading

    def _beginning(self, change: dict[int, int]) -> str:
        return self.reading[0].translate(change) + self.reading[1:]


def in_katakana(kana: str) -> str:
    return _LONG_VOWEL.sub("ー", kana).translate(_KATAKANA)


def _last_part(number: int) -> int:
    """The end of a number: its last digit, else 10, 100, 1000 or 10000."""
    for scale in (10, 100, 1000, 10_000):
        if number % scale:
            return number % scale if scale == 10 else scale // 10
    return 10_000


def _counter(entry: Any) -> Counter:
    if isinstance(entry, str):
        return Counter(entry)
    ones, whole = ({int(number): words for number, words in entry.get(key, {}).items()} for key in ("ones", "whole"))
    return Counter(entry["say"], entry.get("row", ""), entry.get("three", ""), ones, whole)


def katakana(word: str) -> Counter:
    """A word of foreign origin as a counter: only じゅう is cut short before it."""
    return Counter(word, "カ" if word[0] in "カキクケコサシスセソタチツテトパピプペポ" else "")


_DAYS = {
    1: "いちにち", 2: "ふつか", 3: "みっか", 4: "よっか", 5: "いつか", 6: "むいか", 7: "なのか", 8: "ようか",
    9: "ここのか", 10: "とおか", 14: "じゅうよっか", 20: "二十日", 24: "にじゅう よっか", 17: "じゅうしちにち",
    19: "じゅうくにち", 27: "にじゅう しちにち", 29: "にじゅう くにち",
}  # fmt: skip
_THINGS = dict(enumerate("ひとつ ふたつ みっつ よっつ いつつ むっつ ななつ やっつ ここのつ".split(), 1))
_AFTER_DAYS = (("", ""), ("間", "かん"), ("目", "め"))
_AFTER_THINGS = (("", ""), ("目", "め"), ("の", "の"))


def _followed(words: dict[int, str], kana: str) -> dict[int, str]:
    return {number: word + kana for number, word in words.items()}


COUNTERS: dict[str, Counter] = {
    **{name: _counter(entry) for name, entry in _FILE.sections["counters"].items()},
    **{f"日{after}": Counter(f"にち{kana}", whole=_followed(_DAYS, kana)) for after, kana in _AFTER_DAYS},
    **{f"つ{after}": Counter("", whole=_followed(_THINGS, kana)) for after, kana in _AFTER_THINGS},
    **{word: katakana(word) for word in _FILE.list("loanwords")},
}
DAY_OF_MONTH = Counter("にち", whole={**_DAYS, 1: "ついたち"})
