"""Pieces of patterns that languages share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import regex

from kokoro_server.text.spoken.matching import Where

DIGITS = "0123456789"
DASH = r"[-‐‑–—−]"
DASHES = "-‐‑–—−"
SPACE = r"[ \xa0\u2009\u202f]"
LONE_LETTER = re.compile(r"\A\s*+(?P<letter>[A-Za-z])\s*+[.,;:!?]?+\s*+\Z")  # that is all of a text
INNER_DOT = re.compile(r"\.[^\W_]")
VULGAR_FRACTIONS = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒"
# A chemical formula in signs of its own: H₂SO₄, Fe³⁺, ²³⁵U. One without any of them is no formula.
FORMULA_SIGNS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉ₓ"
FORMULA = (
    r"(?<![\p{Latin}\p{Greek}])(?:(?<!\p{N})(?P<mass>[⁰¹²³⁴-⁹]{1,3}ᵐ?))?(?P<atoms>(?:[A-Z][a-z]?(?:[₀-₉]++(?:\.[₀-₉]++)?+|ₓ)?+|"
    r"\((?=[A-Za-z₀-₉]{1,12}\)[₀-₉])|\[(?=[A-Za-z₀-₉()]{1,20}\][⁰¹²³⁴-⁹⁺⁻])|[)\]](?:[₀-₉]++|(?=[⁰¹²³⁴-⁹⁺⁻]))){1,16}+)"
    r"(?P<charge>[⁰¹²³⁴-⁹]?[⁺⁻])?(?P<after>(?<=[₀-₉])[a-z])?(?![\p{Latin}\p{Greek}\p{N}])"
)
_FORMULA_PART = re.compile(r"[A-Za-z]+|[0-9]+|[.+−]")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


def any_of(words: Iterable[str]) -> str:
    """One of `words`, the longest first."""
    return "|".join(regex.escape(word) for word in sorted(words, key=len, reverse=True))


def follows(match: Any, pattern: Any, reach: int = 40) -> bool:
    """Whether `match` comes right after `pattern`, which ends with \\Z. Cheaper than a look-behind."""
    return pattern.search(match.string, max(0, match.start() - reach), match.start()) is not None


def known_digits(text: str) -> str:
    """Digits of any script in ASCII, without those that are newer than this Python's Unicode."""
    return "".join(str(unicodedata.digit(each, "")) for each in text)


def formula_parts(match: Any) -> list[str]:
    """Letters, numbers and signs of a FORMULA in the order in which they are said; none if it is not one."""
    atoms, mass, charge = match["atoms"], match["mass"], match["charge"]
    if not (mass or charge or any(each in FORMULA_SIGNS for each in atoms)):
        return []
    text = unicodedata.normalize("NFKC", f"{atoms} {match['after'] or ''} {mass or ''} {charge or ''}")
    return [part.upper() if part == "m" else part for part in _FORMULA_PART.findall(text)]


def numeral(sign: str) -> str:
    """The digits of a numeral of any script, such as ⑦; empty if it is no whole number."""
    amount = unicodedata.numeric(sign, -1.0)
    return known_digits(unicodedata.normalize("NFKC", sign)) or (f"{amount:.0f}" if amount >= 0 else "")


def roman_value(letters: str) -> int | None:
    """The number below 4000 that capital letters are in Roman numerals, in their usual form; else None."""
    if not _ROMAN.fullmatch(letters):
        return None
    values = [_ROMAN_VALUES[letter] for letter in letters]
    return sum(-each if each < after else each for each, after in zip(values, [*values[1:], 0], strict=True))


def two_words(match: Any, first: str, said: str, second: str, then: str, end: int = -1) -> list[tuple[Where, str]]:
    """Claims on two groups: one for each if there is a space between them, as they are two words, else one for both."""
    end = match.end(second) if end < 0 else end
    if match.string[match.end(first)].isspace():
        return [(first, said), ((match.start(second), end), then)]
    return [((match.start(first), end), f"{said} {then}")]
