"""Whether words are heard in phonemes: their consonants must occur in them, in order, but for those that are silent."""

from __future__ import annotations

import re
import unicodedata

# The sounds that a letter may stand for, in a word or by its name.
_SOUNDS = {
    "b": "b", "c": "ksʃʧ", "d": "dTtʤ", "f": "fv", "g": "ɡʤʒkŋ", "j": "ʤjhʒ", "k": "k", "l": "l", "m": "m", "n": "nŋm",
    "p": "pf", "q": "k", "r": "ɹ", "s": "szʃʒ", "t": "tTdʃʧθðs", "v": "vf", "w": "wvdhu", "x": "kzɡs", "z": "zstʒ",
    "th": "θðtTʧ", "sh": "ʃʧs", "ch": "ʧkʃs", "ph": "fpʧ", "ng": "ŋnʤɡ",
}  # fmt: skip
_UNIT = re.compile(
    r"(?P<silent>gh|h|(?<=[aeo])w(?![aiou])|(?<![a-z])(?:k(?=n)|w(?=r)|p(?=[ns])))|(?P<unit>th|sh|ch|ph|ng|([b-df-hj-np-tv-xz])\3*)"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’.][^\W\d_]+)*\.?")


def unheard(text: str, phonemes: str) -> list[str]:
    """The words of `text` of which `phonemes` has less than half."""
    words = _WORD.findall(text)
    units = [(index, sounds) for index, word in enumerate(words) for sounds in _units(word)]
    heard = [0] * len(words)
    for index in _aligned(units, phonemes):
        heard[index] += 1
    wanted = [sum(index == each for each, _ in units) for index in range(len(words))]
    return [word for word, found, all_of_it in zip(words, heard, wanted, strict=True) if 2 * found < all_of_it]


def _units(word: str) -> list[str]:
    """The sounds that each consonant of `word` may have. One that is always silent is left out."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c))
    units = (match["unit"] for match in _UNIT.finditer(plain) if match["unit"])
    return [_SOUNDS.get(unit) or _SOUNDS[unit[0]] for unit in units]


def _aligned(units: list[tuple[int, str]], phonemes: str) -> list[int]:
    """The words of the units that are found, with as many found as can be, each as early as can be."""
    columns = len(phonemes) + 1
    longest = [[0] * columns for _ in range(len(units) + 1)]
    for row in range(len(units) - 1, -1, -1):
        for column in range(len(phonemes) - 1, -1, -1):
            found = phonemes[column] in units[row][1] and 1 + longest[row + 1][column + 1]
            longest[row][column] = max(found, longest[row + 1][column], longest[row][column + 1])
    aligned, row, column = list[int](), 0, 0
    while row < len(units) and column < len(phonemes):
        if phonemes[column] in units[row][1] and longest[row][column] == 1 + longest[row + 1][column + 1]:
            aligned.append(units[row][0])
            row, column = row + 1, column + 1
        elif longest[row][column] == longest[row][column + 1]:
            column += 1
        else:
            row += 1
    return aligned
