"""French."""

from __future__ import annotations

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import LanguageTable
from kokoro_server.text.spoken.vocabulary import Noun


class _French(LanguageTable):
    name = "french"
    name_cents = False
    phone_pairs = True
    scales = (
        (12, Noun("billion", "billions")),
        (9, Noun("milliard", "milliards")),
        (6, Noun("million", "millions")),
        (3, Noun("mille", "mille")),
    )
    of_halves = False
    nth_endings = ("er", "re")
    last_ordinal = 1

    def is_feminine(self, noun: str) -> bool:
        return noun in ("livre sterling", "livres sterling") or super().is_feminine(noun)

    def count(self, number: int, noun: str = "") -> str:
        words = self.cardinal(number)
        if noun in ("mille", "mil"):
            return words.removesuffix("s") if words.endswith(("vingts", "cents")) else words
        counts = number == 1 or noun.partition(" ")[0].endswith(("s", "x"))
        return f"{words}e" if words.endswith("un") and counts and self.is_feminine(noun) else words

    def below_thousand(self, number: int) -> str:
        ones, tens = self.words.numbers["ones"], self.words.numbers["tens"]
        if number < 20:
            return ones[number]
        if number < 100:
            ten, one = divmod(number, 10)
            if number == 80:
                return "quatre-vingts"
            if ten in (7, 9):
                one += 10
            if not one:
                return tens[ten]
            return f"{tens[ten]} et {ones[one]}" if one in (1, 11) and ten < 8 else f"{tens[ten]}-{ones[one]}"
        hundred, rest = divmod(number, 100)
        before = "cent" if hundred == 1 else f"{ones[hundred]} cent"
        return self.with_rest(before, rest) if rest else f"{before}s" if hundred > 1 else before

    def ordinal(self, number: int, ending: str, _noun: str = "") -> str:
        many = "s" if ending.endswith(("s", "ˢ")) else ""
        if number == 1:
            return ("première" if ending.startswith(("r", "èr", "ʳᵉ")) else "premier") + many
        if ending.startswith(("nd", "d")):
            return ("seconde" if ending.startswith(("nde", "de")) else "second") + many
        words = self.count(number, "mille")
        words = words[:-1] if words.endswith("e") else f"{words}u" if words.endswith("cinq") else words
        words = f"{words[:-1]}v" if words.endswith("neuf") else words
        return f"{words}ième{many}"

    def takes_one(self, whole: str, _decimals: str) -> bool:
        return whole in ("0", "1")

    def of(self, noun: str) -> str:
        return f"d'{noun}" if noun[0].lower() in "aeiouyéèêhœ" else super().of(noun)

    def half(self, noun: str) -> str:
        return "une demi" if self.is_feminine(noun) else "un demi"

    def clock(self, hour: int, minute: int, _marked: bool) -> str:
        hours = f"{self.count(hour, 'heures')} heure{'s' if hour > 1 else ''}"
        return f"{hours} {self.count(minute)}" if minute else hours

    def half_day(self, hour: int, after_noon: bool) -> str:
        if not after_noon:
            return "{} du matin"
        return "{} de l'après-midi" if hour < 6 or hour == 12 else "{} du soir"

    def century(self, number: int) -> str:
        return self.count(number)

    def plural(self, word: str) -> str:
        return word if word.endswith(("s", "x")) else f"{word}s"


TABLE = _French()
RULESET = ruleset(TABLE)
