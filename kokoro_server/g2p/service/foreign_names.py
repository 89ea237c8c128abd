"""Names that no lexicon knows, read by the letters of the language that they give away: Przybylski, Zhuangzi."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_VOWELS = frozenset("AIOWYaeiouæɑɔəɛɜɪʊʌ")
_GLIDES = frozenset("ɹlwj")
_STRESS = "ˈ"
_PENULT_END = re.compile(r"[aeiouə][ns]?$|ez$")
_SHORT_I = re.compile(r"i[aeo]s?$")  # no syllable of its own: Antonio
_DOUBLED = re.compile(r"([bdfhklmnpɹstvz])\1")
_FINAL_NG = re.compile(r"ŋɡ$")
_LONGEST = 20  # letters
_SAME, _REST = "=", "&"  # sounds: the letter itself, and its last letter


@dataclass(frozen=True, slots=True)
class ForeignLetters:
    """The letters of a language, and by which of them a name of it is known."""

    language: str
    tells: re.Pattern[str]
    whole: re.Pattern[str] | None
    stress: str
    pattern: re.Pattern[str]
    sounds: tuple[str, ...]

    def fits(self, name: str) -> bool:
        if not self.tells.search(name) and not self.tells.search(name[:1].lower() + name[1:]):
            return False
        return self.whole is None or self.whole.fullmatch(name.lower()) is not None

    def read(self, name: str) -> str:
        """American phonemes of `name`."""
        letters = "".join(map(self._known, name.lower()))
        sounds = "".join(self._sound(match) for match in self.pattern.finditer(letters))
        sounds = _FINAL_NG.sub("ŋ", _DOUBLED.sub(r"\1", sounds).replace("nk", "ŋk").replace("nɡ", "ŋɡ"))
        given = sounds.find(_STRESS)
        syllables = [index for index, sound in enumerate(sounds.replace(_STRESS, "")) if sound in _VOWELS]
        sounds = sounds.replace(_STRESS, "")
        if not syllables:
            return ""
        stressed = given if given >= 0 else syllables[self._stressed_syllable(sounds, len(syllables))]
        return _in_english(sounds, syllables, stressed)

    def _known(self, letter: str) -> str:
        """`letter` without the accents that this language does not have."""
        while letter not in self.pattern.pattern and len(parts := unicodedata.normalize("NFD", letter)) > 1:
            letter = unicodedata.normalize("NFC", parts[:-1])
        return letter

    def _sound(self, match: re.Match[str]) -> str:
        sound = self.sounds[(match.lastindex or 1) - 1]
        return match[0] if sound == _SAME else sound.replace(_REST, match[0][-1])

    def _stressed_syllable(self, sounds: str, count: int) -> int:
        if self.stress == "first" or count == 1:
            return 0
        if self.stress == "last" or (self.stress == "spanish" and not _PENULT_END.search(sounds)):
            return -1
        return -3 if count > 2 and _SHORT_I.search(sounds) else -2


def read_foreign(name: str) -> tuple[str, str] | None:
    """American phonemes of `name` and the code of its language, or None if its letters give none away."""
    name = unicodedata.normalize("NFC", name)
    if len(name) > _LONGEST:
        return None
    letters = next((letters for letters in _languages() if letters.fits(name)), None)
    sounds = letters.read(name) if letters else ""
    return (sounds, letters.language) if letters and sounds else None


@cache
def _languages() -> tuple[ForeignLetters, ...]:
    text = (files(__package__) / "data" / "foreign_letters.toml").read_text(encoding="utf-8")
    return tuple(_letters(language, table) for language, table in tomllib.loads(text).items())


def _letters(language: str, table: dict[str, Any]) -> ForeignLetters:
    patterns = "|".join(f"({pattern})" for pattern in table["letters"])
    whole = re.compile(table["whole"]) if "whole" in table else None
    sounds = tuple(table["letters"].values())
    return ForeignLetters(language, re.compile(table["tells"]), whole, table["stress"], re.compile(patterns), sounds)


def _in_english(sounds: str, syllables: list[int], stressed: int) -> str:
    """`sounds` with the vowels that English has in such places, and with stress."""
    said = ""
    for index, sound in enumerate(sounds):
        if index == stressed:
            said += _STRESS
        elif index == syllables[0] and stressed in syllables[2:] and sound != "ə":
            said += "ˌ"
        said += _vowel(sounds, index, index == stressed, index == syllables[0]) if sound in "aeo" else sound
    return said.replace("ˈəɹ", "ˈɜɹ")


def _vowel(sounds: str, index: int, is_stressed: bool, is_first: bool) -> str:
    after, next_but_one = sounds[index + 1 : index + 2], sounds[index + 2 : index + 3]
    closed = bool(after) and after not in _VOWELS and next_but_one not in _VOWELS and next_but_one not in _GLIDES
    closed |= bool(after) and after not in _VOWELS and not next_but_one
    match sounds[index]:
        case "o":
            return "ɔ" if after == "ɹ" else "O"
        case "a":
            return "ɑ" if is_stressed or is_first or after == "ɹ" or (closed and after != "n") else "ə"
        case _ if not after:
            return "A"
        case _ if is_stressed:
            return "ɛ" if closed or after == "ɹ" else "A"
        case _:
            return "ɛ" if closed or is_first or after == "ɹ" else "ə"
