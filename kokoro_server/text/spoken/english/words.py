"""Numbers and letters in words.

Letters that are said one by one are written with dots between them, `I.B.M`: misaki then says their names, whatever
the letters would spell, and stresses the last. A single `A` is written `eh`, which sounds the same: misaki takes a lone
A for the article.
"""

from __future__ import annotations

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.matching import Dialect

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = (
    "thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion decillion"
).split()
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_LONGEST_CARDINAL = 3 * (len(_SCALES) + 1)  # digits; a longer number is said digit by digit
_GROUPING = regex.compile(r"[,\s\u2009\u202f\xa0'’_]")
_VOWEL = regex.compile(r"[aeiouy]", regex.I)
_CONSONANTS = regex.compile(r"[bcdfghjklmnpqrstvwxz]{5}", regex.I)
_SHORT_WORDS = frozenset(vocabulary.load("english_grammar").list("short_words"))


def cardinal(number: int, dialect: Dialect) -> str:
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")
    if number < 1000:
        rest = number % 100
        joint = " and " if dialect.british else " "
        return f"{ONES[number // 100]} hundred" + (joint + cardinal(rest, dialect) if rest else "")
    if len(str(number)) > _LONGEST_CARDINAL:
        return digits(str(number))
    parts, scale, rest = list[str](), 0, number
    while rest:
        rest, group = divmod(rest, 1000)
        if group:
            words = cardinal(group, dialect)
            if scale:
                words += f" {_SCALES[scale - 1]}"
            elif dialect.british and group < 100:
                words = f"and {words}"
            parts.insert(0, words)
        scale += 1
    return " ".join(parts)


def ordinal(number: int, dialect: Dialect) -> str:
    *before, last = cardinal(number, dialect).split(" ")
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return " ".join((*before, _ORDINALS.get(last, regular)))


def digits(text: str, zero: str = "zero") -> str:
    """Each digit by itself."""
    return " ".join(ONES[int(each)] if each != "0" else zero for each in text if each.isdecimal())


def decimal(text: str, dialect: Dialect) -> str:
    """A number as it is written: `1,234.5`, `.75`, `007`."""
    whole, _, fraction = value(text).partition(".")
    if not whole:
        return f"point {digits(fraction)}"
    too_long = len(whole) > _LONGEST_CARDINAL
    words = digits(whole) if too_long or (len(whole) > 1 and whole[0] == "0") else cardinal(int(whole), dialect)
    return f"{words} point {digits(fraction)}" if fraction else words


def value(text: str) -> str:
    """The number without the marks between its thousands."""
    return str(_GROUPING.sub("", text))


def year(number: int, dialect: Dialect) -> str:
    """1999 nineteen ninety nine, 1905 nineteen oh five, 1900 nineteen hundred, 2004 two thousand four."""
    high, low = divmod(number, 100)
    if number < 1000 or (high % 10 == 0 and low < 10) or number > 9999:
        return cardinal(number, dialect)
    if low == 0:
        return f"{cardinal(high, dialect)} hundred"
    return f"{cardinal(high, dialect)} {f'oh {ONES[low]}' if low < 10 else cardinal(low, dialect)}"


def in_pairs(text: str, dialect: Dialect) -> str:
    """The digits of a name or an address: 747 seven forty seven, 101 one oh one, 2616 twenty six sixteen."""
    if len(text) < 3:
        return decimal(text, dialect) if text[0] != "0" else digits(text)
    if text[0] == "0" or len(text) > 4:
        return digits(text)
    high, low = int(text[:-2]), int(text[-2:])
    if low == 0:
        return cardinal(int(text), dialect) if high % 10 == 0 else f"{cardinal(high, dialect)} hundred"
    return f"{cardinal(high, dialect)} {f'oh {ONES[low]}' if low < 10 else cardinal(low, dialect)}"


def plural(words: str) -> str:
    if words.endswith("y") and words[-2:-1] not in "aeiou":
        return f"{words[:-1]}ies"
    return f"{words}es" if words.endswith(("s", "x", "ch", "sh")) else f"{words}s"


def letters(text: str, dialect: Dialect) -> str:
    """The names of letters. Other characters are left out."""
    upper = [letter for letter in text.upper() if letter.isalpha()]
    if upper == ["A"]:
        return "eh"
    named, _, after = "".join(upper).partition("Z") if dialect.british else ("".join(upper), "", "")
    spelled = ".".join(named)
    if len(named) < len(upper):
        return " ".join(filter(None, (letters(named, dialect), "zed", letters(after, dialect))))
    return spelled


def word_or_letters(text: str, dialect: Dialect) -> str:
    """A part of an address or of a name in code: said as a word if it can be, else spelled."""
    if len(text) < 3:
        return text.lower() if text.lower() in _SHORT_WORDS else letters(text, dialect)
    if not text.isascii() or (_VOWEL.search(text) and not _CONSONANTS.search(text)):
        if not text.isupper():
            return text
        return text.lower() if len(text) > 4 else letters(text, dialect)
    return letters(text, dialect)
