"""What the rules must know of a language: its words for numbers, money, units, months, abbreviations and signs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import regex

_SPACES = regex.compile(r"[\s\u2009\u202f'’]")
_LONGEST_NUMBER = 15  # digits; a longer one is read digit by digit


class Noun(NamedTuple):
    one: str
    many: str


class Currency(NamedTuple):
    unit: Noun
    cent: Noun | None = None


class Big(NamedTuple):
    """A word that follows a number: three *million*. `of`: a noun is joined to it by a word."""

    word: Noun
    of: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Functions take the noun that the number agrees with, which may be empty."""

    count: Callable[[int, str], str]
    ordinal: Callable[[int, str, str], str]  # the ending as it is written (`º`, `ème`, `वीं`), and the noun after it
    ordinal_endings: str  # a pattern
    takes_one: Callable[[str, str], bool]  # whether a noun is in the singular: whole, decimals
    comma_is_decimal: bool
    comma: str
    point: str
    decimals_as_number: int  # so many decimals are said as one number, more as digits
    bigs: Mapping[str, Big]
    of: Callable[[str], str]  # how a noun follows such a word: `de euros`, `d'euros`
    small_words: frozenset[str]  # what follows a number and is no noun
    to: str
    by: str
    ratio: str
    over: str  # 8/10
    after_scores: str  # a pattern: what follows two numbers that are no range
    score: str  # `x` between the goals of two teams; empty where it is not written so
    fraction: Callable[[int, int, str], str | None]  # numerator, denominator, the noun after it
    mixed: Callable[[int, int, int, str], str | None]  # with a whole number before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    months: tuple[str, ...]
    short_months: Mapping[str, int]
    joint: str  # between day, month and year: 5 *de* mayo
    first: str  # the first day of a month
    year: Callable[[int, str], str]
    before_dates: str  # a pattern: what makes 3/4 a day
    clock: Callable[[int, int, bool], str]  # hour, minute, and whether a word for hours follows
    before_times: str  # a pattern: what makes 14.30 a time
    hours_mark: str  # a pattern: what may follow 14:30
    half_day: Callable[[int, bool], str]  # hour, whether after noon; `{}` is for the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Roman:
    ruler: Callable[[int, str], str]  # the numeral after a name
    century: Callable[[int], str]  # after the word for it
    centuries: str  # a pattern
    counted: str  # a pattern: words that a number follows: chapter, page
    nth: Callable[[int, str], str | None]  # the numeral before a noun: II Guerra
    endings: str  # a pattern: XIX*e* siècle


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTable:
    numbers: Numbers
    dates: Dates
    roman: Roman
    currencies: Mapping[str, Currency]  # by sign and by code
    cents: str  # between the amount and the cents; the word for cents is left out if it has none
    name_cents: bool
    units: Mapping[str, Noun]
    square: str
    cubic: str
    degrees: Noun
    scales: Mapping[str, str]  # of temperature, by letter
    degree_is_ordinal: bool  # 1° may be the first
    per: Callable[[str], str]
    periods: Mapping[str, str]  # what follows a slash: €/month
    titles: Mapping[str, str]  # before a name
    before_numbers: Mapping[str, str]
    abbreviations: Mapping[str, str]  # anywhere
    spelled: frozenset[str]  # acronyms that espeak would take for words
    letters: Mapping[str, str]  # names of letters that are words by themselves
    signs: Mapping[str, str]
    marks: Mapping[str, str]  # in an address
    hashtag: str
    slashed: Mapping[str, str]
    phones: str  # a pattern
    before_phones: str  # a pattern: what makes digits a telephone number
    phone_pairs: bool
    code_block: str

    def digits(self, text: str) -> str:
        """Each digit by itself."""
        return " ".join(self.numbers.count(int(each), "") for each in text if each.isdecimal())

    def spell(self, text: str) -> str:
        """Letters and digits by their names."""
        return " ".join(
            self.digits(each) if each.isdecimal() else self.letters.get(each.lower(), each)
            for each in text
            if each.isalnum()
        )

    def integer(self, digits: str, noun: str = "") -> str:
        if len(digits) > _LONGEST_NUMBER or (len(digits) > 1 and int(digits[0]) == 0):
            return self.digits(digits)
        return self.numbers.count(int(digits), noun)

    def number(self, text: str, noun: str = "") -> str:
        """A number as it is written, before `noun`."""
        whole, mark, decimals = self.parse(text)
        if not decimals:
            return self.integer(whole, noun)
        mark = self.numbers.comma if mark == "," else self.numbers.point
        return f"{self.integer(whole)} {mark} {self._decimals(decimals)}"

    def _decimals(self, text: str) -> str:
        significant = text.lstrip("0०")
        if len(text) > self.numbers.decimals_as_number or not significant:
            return self.digits(text)
        zeros = self.digits(text[: len(text) - len(significant)])
        return f"{zeros} {self.numbers.count(int(significant), '')}".lstrip()

    def parse(self, text: str, *, money: bool = False) -> tuple[str, str, str]:
        """The digits before the decimal mark, the mark, and the digits after it."""
        text = _SPACES.sub("", text)
        marks = [each for each in text if each in ".,"]
        if not marks:
            return text, "", ""
        mark = marks[-1]
        whole, _, after = text.rpartition(mark)
        if len(set(marks)) == 1 and (len(marks) > 1 or self._groups(whole, mark, after, money=money)):
            return text.replace(mark, ""), "", ""
        return whole.replace(".", "").replace(",", ""), mark, after

    def _groups(self, whole: str, mark: str, after: str, *, money: bool) -> bool:
        """Whether a single mark is between thousands. Money has no three decimals."""
        if not self.numbers.comma_is_decimal and mark == ",":
            return True
        is_group = len(after) == 3 and len(whole) < 4 and whole.lstrip("0०") != ""
        return is_group and (money or (self.numbers.comma_is_decimal and mark == "."))

    def noun(self, noun: Noun, amount: str) -> str:
        whole, _, decimals = self.parse(amount)
        return noun.one if self.numbers.takes_one(whole.lstrip("0०") or "0", decimals) else noun.many


def nouns(text: str, plural: Callable[[str], str]) -> dict[str, Noun]:
    """Entries such as `km kilómetro; ft pie; in,″ pulgada`: symbols, the singular, and the plural if it is irregular.

    A space within a name is written as an underscore.
    """
    found = dict[str, Noun]()
    for entry in text.split(";"):
        symbols, one, *many = entry.split()
        noun = Noun(one.replace("_", " "), (many[0] if many else plural(one)).replace("_", " "))
        found.update(dict.fromkeys(symbols.split(","), noun))
    return found


def currencies(text: str, plural: Callable[[str], str]) -> dict[str, Currency]:
    """Entries such as `€,EUR euro / céntimo`, in the form of `nouns`."""
    found = dict[str, Currency]()
    for entry in text.split(";"):
        unit, _, cent = entry.partition(" / ")
        noun = nouns(f"x {cent}", plural)["x"] if cent else None
        found.update({symbol: Currency(name, noun) for symbol, name in nouns(unit, plural).items()})
    return found


def pairs(text: str) -> dict[str, str]:
    """Entries such as `Sr. = señor; p. ej. = por ejemplo`."""
    entries = (entry.split("=") for entry in text.split(";"))
    return {key.strip(): " ".join(said.split()) for key, said in entries}


def signs(text: str) -> dict[str, str]:
    """Entries such as `& y; @ arroba`."""
    entries = (entry.strip().partition(" ") for entry in text.split("; "))
    return {sign: name for sign, _, name in entries}
