"""Italian."""

from __future__ import annotations

import regex

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import LanguageTable
from kokoro_server.text.spoken.vocabulary import Noun

# Before these a masculine noun has `uno`: uno studente, uno zaino.
_HARD = regex.compile(r"(?i)(?:s[bcdfglmnpqrtv]|z|gn|ps|pn|x|y)")


class _Italian(LanguageTable):
    name = "italian"
    scales = ((12, Noun("bilione", "bilioni")), (9, Noun("miliardo", "miliardi")), (6, Noun("milione", "milioni")))
    greatest_denominator = 100
    of_halves = False
    last_ordinal = 99

    def count(self, number: int, noun: str = "") -> str:
        if number == 1 and noun:
            return "una" if self.is_feminine(noun) else "uno" if _HARD.match(noun) else "un"
        return self.cardinal(number)

    def cardinal(self, number: int) -> str:
        if number >= 10**6:
            return super().cardinal(number)
        ones, tens = self.words.numbers["ones"], self.words.numbers["tens"]
        if number < 20:
            return ones[number]
        if number < 100:
            ten, rest = divmod(number, 10)
            before = tens[ten][:-1] if rest in (1, 8) else tens[ten]
        elif number < 1000:
            hundred, rest = divmod(number, 100)
            before = "cento" if hundred == 1 else f"{ones[hundred]}cento"
            before = before[:-1] if rest // 10 == 8 or rest == 8 else before
        else:
            thousands, rest = divmod(number, 1000)
            before = "mille" if thousands == 1 else f"{self.cardinal(thousands).replace('tré', 'tre')}mila"
            # A word of all the digits is too long to be said well.
            before += " " if thousands > 20 and rest > 99 else ""
        return before if not rest else before + ("tré" if rest == 3 else self.cardinal(rest))

    def ordinal(self, number: int, ending: str, noun: str = "") -> str:
        if number == 0:
            return "zero"
        if number <= 10:
            words = self.words.numbers["ordinals"][number]
        else:
            stem = self.cardinal(number).replace("tré", "tre")
            keeps = number % 10 in (3, 6) and number % 100 not in (13, 16)
            stem = f"{stem[:-4]}mill" if stem.endswith("mila") else stem if keeps else stem[:-1]
            words = f"{stem}esimo"
        agrees = ending == "º" and noun.endswith("a") and self.is_feminine(noun)
        return f"{words[:-1]}a" if agrees or ending.strip(".") in ("ª", "a") else words

    def mixed(self, whole: int, upper: int, lower: int, noun: str) -> str | None:
        if (upper, lower) == (1, 2):
            feminine = noun.endswith(("a", "e"))
            one = "una" if feminine and whole == 1 else self.count(whole)
            return f"{one} e {'mezza' if feminine else 'mezzo'}"
        return super().mixed(whole, upper, lower, noun)

    def clock(self, hour: int, minute: int, _marked: bool) -> str:
        hours = self.count(hour, "ora")
        return f"{hours} e {self.count(minute)}" if minute else "mezzanotte" if hour == 0 else hours

    def half_day(self, hour: int, after_noon: bool) -> str:
        if not after_noon:
            return "{} di mattina" if hour < 12 else "{} di notte"
        return "{} del pomeriggio" if hour < 6 or hour == 12 else "{} di sera"

    def per(self, unit: str) -> str:
        if unit[0] in "aeiou":
            return f"all'{unit}"
        return f"alla {unit}" if self.is_feminine(unit) else super().per(unit)

    def plural(self, word: str) -> str:
        return word[:-1] + {"o": "i", "a": "e", "e": "i"}.get(word[-1], word[-1])


TABLE = _Italian()
RULESET = ruleset(TABLE)
