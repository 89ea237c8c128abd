"""Spanish."""

from __future__ import annotations

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.iberian import IberianTable
from kokoro_server.text.spoken.vocabulary import Noun


class _Spanish(IberianTable):
    name = "spanish"
    scales = ((12, Noun("billón", "billones")), (6, Noun("millón", "millones")), (3, Noun("mil", "mil")))
    joints = (" y ", " ")
    nth_endings = ("er", "ª")
    feminine_endings = ("ª", "a", "ra", "da", "ta", "va", "na", "ma", "as")

    def agree(self, words: str, noun: str) -> str:
        if self.is_feminine(noun):
            before, million, after = words.rpartition("millones" if "millones" in words else "millón")
            after = after.replace("cientos", "cientas").replace("quinientos", "quinientas")
            return before + million + (f"{after[:-1]}a" if after.endswith("uno") else after)
        if words.endswith("veintiuno"):
            return f"{words[:-9]}veintiún"
        return words[:-1] if words.endswith("uno") else words

    def ordinal(self, number: int, ending: str, noun: str = "") -> str:
        if not 0 < number <= 100 and number != 1000:
            return self.count(number)
        words = super().ordinal(number, ending)
        short = "r" in ending or (ending.strip(".") in ("º", "o", "°") and noun)
        return words[:-1] if short and words.endswith(("primero", "tercero")) else words

    def fraction(self, upper: int, lower: int, noun: str) -> str | None:
        if noun == "partes" and 1 < upper < lower <= 10:
            return f"{self.count(upper)} {self.ordinal(lower, 'ª')}s"
        return super().fraction(upper, lower, noun)

    def clock(self, hour: int, minute: int, marked: bool) -> str:
        hours = self.count(hour, "horas")
        if not minute:
            return f"{hours} hora{'s' if hour != 1 else ''}" if marked or hour > 12 or hour == 0 else hours
        return f"{hours} {'y ' if minute < 10 or hour == 1 else ''}{self.count(minute)}{' horas' if marked else ''}"

    def half_day(self, hour: int, after_noon: bool) -> str:
        if not after_noon:
            return "{} de la mañana" if hour < 12 else "{} de la noche"
        return "{} del mediodía" if hour == 12 else "{} de la tarde" if hour < 8 else "{} de la noche"

    def plural(self, word: str) -> str:
        return word + ("" if word.endswith("s") else "s" if word[-1] in "aeiouét" else "es")


TABLE = _Spanish()
RULESET = ruleset(TABLE)
