"""Spanish and Portuguese, which build and inflect their numbers alike."""

from __future__ import annotations

from abc import abstractmethod

from kokoro_server.text.spoken.shared.table import LanguageTable


class IberianTable(LanguageTable):
    joints: tuple[str, str]  # before ones, after hundreds
    feminine_endings: tuple[str, ...]  # of ordinals

    @abstractmethod
    def agree(self, words: str, noun: str) -> str: ...

    def count(self, number: int, noun: str = "") -> str:
        words = self.cardinal(number)
        counts = (number == 1 and noun) or noun == "mil" or noun.partition(" ")[0].endswith("s")
        return self.agree(words, noun) if counts else words

    def below_thousand(self, number: int) -> str:
        ones, tens, hundreds = (self.words.numbers[each] for each in ("ones", "tens", "hundreds"))
        if number < len(ones):
            return ones[number]
        if number == 100:
            return hundreds[0]
        names, size = (tens, 10) if number < 100 else (hundreds, 100)
        high, rest = divmod(number, size)
        return f"{names[high]}{self.joints[size == 100]}{self.below_thousand(rest)}" if rest else names[high]

    def ordinal(self, number: int, ending: str, _noun: str = "") -> str:
        words = self._ordinal(number)
        feminine = number and ending.strip(".") in self.feminine_endings
        return words.replace("o ", "a ").removesuffix("o") + "a" if feminine else words

    def _ordinal(self, number: int) -> str:
        ones, tens = self.words.numbers["ordinals"], self.words.numbers["ordinal_tens"]
        if number < len(ones):
            return ones[number]
        if number < 100:
            ten, one = divmod(number, 10)
            return f"{tens[ten]} {ones[one]}" if one else tens[ten]
        if number < 200:
            return f"centésimo {self._ordinal(number - 100)}" if number > 100 else "centésimo"
        return "milésimo" if number == 1000 else self.cardinal(number)
