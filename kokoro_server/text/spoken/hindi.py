"""Hindi. Digits are Arabic or Devanagari."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import LanguageTable

_SCALES = ((10**11, "खरब"), (10**9, "अरब"), (10**7, "करोड़"), (10**5, "लाख"), (10**3, "हज़ार"), (10**2, "सौ"))
_ORDINALS = {1: "पहला", 2: "दूसरा", 3: "तीसरा", 4: "चौथा", 6: "छठा"}
_FRACTIONS = {2: "आधा", 3: "तिहाई", 4: "चौथाई", 5: "पाँचवाँ हिस्सा", 8: "आठवाँ हिस्सा", 10: "दसवाँ हिस्सा"}


class _Hindi(LanguageTable):
    name = "hindi"
    comma_is_decimal = False
    decimals_as_number = 0
    degree_is_ordinal = False

    def count(self, number: int, _noun: str = "") -> str:
        if number == 100:
            return "सौ"
        words = list[str]()
        for scale, name in _SCALES:
            high, number = divmod(number, scale)
            if high:
                words.append(f"{self.count(high)} {name}")
        if number or not words:
            words.append(self.words.numbers["ones"][number])
        return " ".join(words)

    def year(self, number: int, _noun: str) -> str:
        high, low = divmod(number, 100)
        if not 11 <= high <= 19:
            return self.count(number)
        return f"{self.count(high)} सौ {self.count(low)}" if low else f"{self.count(high)} सौ"

    def ordinal(self, number: int, ending: str, _noun: str = "") -> str:
        """The vowel of the ending says gender and case: 21वीं, 5वें, 1ला, 2री."""
        vowel = "ी" if "ी" in ending else "े" if "े" in ending else "ा"
        if number in _ORDINALS:
            return _ORDINALS[number][:-1] + vowel
        return self.count(number) + {"ी": "वीं", "े": "वें", "ा": "वाँ"}[vowel]

    def fraction(self, upper: int, lower: int, _noun: str) -> str | None:
        if lower not in _FRACTIONS or not 0 < upper < 100:
            return None
        return _FRACTIONS[2] if (upper, lower) == (1, 2) else f"{self.count(upper)} {_FRACTIONS[lower]}"

    def mixed(self, whole: int, upper: int, lower: int, noun: str) -> str | None:
        if (upper, lower) == (1, 2):
            return self._and_a_half(whole)
        if (upper, lower) == (1, 4):
            return "सवा" if whole == 1 else f"सवा {self.count(whole)}"
        if (upper, lower) == (3, 4):
            return f"पौने {self.count(whole + 1)}"
        return super().mixed(whole, upper, lower, noun)

    def _and_a_half(self, whole: int) -> str:
        return {0: "आधा", 1: "डेढ़", 2: "ढाई"}.get(whole, f"साढ़े {self.count(whole)}")

    def clock(self, hour: int, minute: int, marked: bool) -> str:
        if not minute:
            return f"{self.count(hour)} बजे"
        words = self._and_a_half(hour) if minute == 30 and 0 < hour < 13 else f"{self.count(hour)} {self.count(minute)}"
        return f"{words} बजे" if marked else words

    def half_day(self, hour: int, after_noon: bool) -> str:
        if not after_noon:
            return "सुबह {}" if 3 < hour < 12 else "रात {}"
        return "दोपहर {}" if hour in (12, 1, 2, 3) else "शाम {}" if hour < 8 else "रात {}"

    def ruler(self, number: int, _name: str) -> str:
        return self.words.numbers["rulers"][number] if number <= 10 else self.ordinal(number, "ा")

    def century(self, number: int) -> str:
        return self.ordinal(number, "ी")

    def nth(self, _number: int, _noun: str) -> str | None:
        return None

    def spellings(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Also with the letters that have their dot in one character."""
        return {key: each for name, each in entries.items() for key in (name, _one_character(name))}


def _one_character(text: str) -> str:
    for two, one in (("ड़", "\u095c"), ("ज़", "\u095b"), ("फ़", "\u095e")):
        text = text.replace(two, one)
    return text


TABLE = _Hindi()
RULESET = ruleset(TABLE)
