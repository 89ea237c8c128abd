"""Letters that an English lexicon does not know, in those that it does: Cyrillic, Greek, small capitals, accents."""

from __future__ import annotations

import re
import unicodedata

_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ё": "yo", "ж": "zh", "з": "z", "и": "i", "й": "y",
    "к": "k", "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f",
    "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e", "ю": "yu",
    "я": "ya", "і": "i", "ї": "yi", "є": "ye", "ґ": "g", "ў": "w", "ј": "y", "љ": "ly", "њ": "ny", "ћ": "ch",
    "ђ": "dj", "џ": "dzh", "ѓ": "gy", "ќ": "ky", "ѕ": "dz",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "th", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "i", "φ": "f",
    "χ": "kh", "ψ": "ps", "ω": "o",
}  # fmt: skip
# Letters that look like Latin ones, and stand for them in a word that has Latin letters.
_LOOKALIKES = str.maketrans(
    "авеіјкмнорстухѕԁԛԝАВЕІЈКМНОРСТУХЅαεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "abeijkmhopctyxsdqwABEIJKMHOPCTYXSaeiknoptuxABEZHIKMNOPTYX",
)
_SMALL_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
_APOSTROPHES = str.maketrans("ʼʻʹ′‘’`´＇", "'" * 9)
_STROKES = {"ø": "o", "ł": "l", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "th", "ı": "i"}
_LATIN = re.compile(r"[A-Za-z]")
_TONOS = "\u0301"  # Greek words of more than one syllable have an accent; letters of a formula have none


def to_latin(word: str) -> str:
    """`word` in Latin letters, as far as they are known, with plain apostrophes.

    A single letter is said by its name, and so are Greek letters without an accent, which are those of a formula.
    """
    if word.isascii() or len(word) == 1:
        return word
    word = word.translate(_APOSTROPHES).translate(_SMALL_CAPITALS)
    if _LATIN.search(word):
        return word.translate(_LOOKALIKES)
    letters = _CYRILLIC | _GREEK if _TONOS in unicodedata.normalize("NFD", word) else _CYRILLIC
    return "".join(_transliterated(character, letters) for character in word)


def without_accents(word: str) -> str:
    """`word` as it is written where there are no accents."""
    if word.isascii():
        return word
    plain = "".join(_transliterated(character, _STROKES) for character in word)
    return "".join(each for each in unicodedata.normalize("NFD", plain) if not unicodedata.combining(each))


def _transliterated(character: str, letters: dict[str, str]) -> str:
    small = character.lower()
    latin = letters.get(small, letters.get(unicodedata.normalize("NFD", small)[0]))
    if latin is None:
        return character
    return latin if character == small else latin.capitalize()
