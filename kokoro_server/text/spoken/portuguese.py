"""Brazilian Portuguese."""

from __future__ import annotations

import regex

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.iberian import IberianTable
from kokoro_server.text.spoken.vocabulary import Noun


class _Portuguese(IberianTable):
    name = "portuguese"
    scales = (
        (12, Noun("trilhão", "trilhões")),
        (9, Noun("bilhão", "bilhões")),
        (6, Noun("milhão", "milhões")),
        (3, Noun("mil", "mil")),
    )
    joints = (" e ", " e ")
    feminine_endings = ("ª", "a", "as", "ªs")

    def agree(self, words: str, noun: str) -> str:
        if not self.is_feminine(noun):
            return words
        before, million, after = words.rpartition("milhões" if "milhões" in words else "milhão")
        after = regex.sub(r"\bum\b", "uma", regex.sub(r"\bdois\b", "duas", after))
        return f"{before}{million}{regex.sub(r'(?<=zent|cent|nhent)os', 'as', after)}"

    def with_rest(self, before: str, rest: int) -> str:
        return f"{before} {'e ' if rest < 100 or (rest < 1000 and rest % 100 == 0) else ''}{self.cardinal(rest)}"

    def ordinal(self, number: int, ending: str, noun: str = "") -> str:
        return "terça" if (number, noun) == (3, "feira") else super().ordinal(number, ending)

    def clock(self, hour: int, minute: int, marked: bool) -> str:
        hours = self.count(hour, "horas")
        if not minute:
            return f"{hours} hora{'s' if hour != 1 else ''}"
        return f"{hours} {'horas e ' if marked and hour != 1 else 'hora e ' if marked else 'e '}{self.count(minute)}"

    def half_day(self, hour: int, after_noon: bool) -> str:
        if not after_noon:
            return "{} da manhã" if hour < 12 else "{} da noite"
        return "{} da tarde" if hour < 6 or hour == 12 else "{} da noite"

    def plural(self, word: str) -> str:
        return word + ("" if word.endswith("s") else "es" if word[-1] in "rz" else "s")


TABLE = _Portuguese()
RULESET = ruleset(TABLE)
