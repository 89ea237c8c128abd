"""A language as the shared rules need it: its words, and its grammar of numbers, dates and Roman numerals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.vocabulary import Currency, Noun, Phrases

_SPACES = regex.compile(r"[\s\u2009\u202f'’]")
_LONGEST_NUMBER = 15  # digits; a longer one is read digit by digit
_NEVER = "(?!)"


class Big(NamedTuple):
    """A word that follows a number: three *million*. `of`: a noun is joined to it by a word."""

    word: Noun
    of: bool


@dataclass(frozen=True, slots=True)
class Words:
    """The sections of a language's file."""

    phrases: Phrases
    units: Mapping[str, Noun]
    currencies: Mapping[str, Currency]  # by sign, code or word
    magnitudes: Mapping[str, Big]
    rates: Mapping[str, str]  # what follows a slash: €/month
    scales: Mapping[str, str]  # of temperature, by letter
    titles: Mapping[str, str]  # before a name
    before_numbers: Mapping[str, str]
    abbreviations: Mapping[str, str]  # anywhere
    slashed: Mapping[str, str]
    letters: Mapping[str, str]  # names of letters that are words by themselves
    signs: Mapping[str, str]
    address_marks: Mapping[str, str]
    months: list[str]
    short_months: Mapping[str, int]
    spelled: frozenset[str]  # acronyms that espeak would take for words
    small_words: frozenset[str]  # what follows a number and is no noun
    counted: str  # a pattern: words that a number follows: chapter, page

    @classmethod
    def load(
        cls, name: str, plural: Callable[[str], str], spellings: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    ) -> Words:
        """`plural` is of one word; in a name of several the first changes. `spellings` adds other spellings of keys."""
        file = vocabulary.load(name)

        def plural_of_first(words: str) -> str:
            first, space, rest = words.partition(" ")
            return plural(first) + space + rest

        months, of = file.list("months"), file.having("magnitudes", "of")
        magnitudes = file.nouns("magnitudes", plural_of_first)
        return cls(
            phrases=Phrases(**file.words("phrases")),
            units=file.nouns("units", plural_of_first),
            currencies=file.currencies("currencies", plural_of_first),
            magnitudes=spellings({key: Big(noun, key in of) for key, noun in magnitudes.items()}),
            rates=file.words("rates"),
            scales=file.words("scales"),
            titles=file.words("titles"),
            before_numbers=file.words("before_numbers"),
            abbreviations=file.words("abbreviations"),
            slashed=file.words("slashed"),
            letters=file.words("letters"),
            signs=file.words("signs"),
            address_marks=file.words("address_marks"),
            months=months,
            short_months=spellings({key: months.index(name) + 1 for key, name in file.words("short_months").items()}),
            spelled=frozenset(file.list("spelled")),
            small_words=frozenset(file.list("small_words")),
            counted=file.pattern("counted"),
        )


def feminine(name: str) -> Callable[[str], bool]:
    """Whether a noun of the language is feminine, by its first word."""
    file = vocabulary.load(name)
    pattern = regex.compile(
        rf"(?i)(?!(?:{file.pattern('masculine')})\Z)(?:.*(?:{file.pattern('feminine_endings')})|{file.pattern('feminine')})"
    )
    return lambda noun: pattern.fullmatch(noun.partition(" ")[0]) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Functions take the noun that the number agrees with, which may be empty."""

    count: Callable[[int, str], str]
    ordinal: Callable[[int, str, str], str]  # the ending as it is written (`º`, `ème`, `वीं`), and the noun after it
    ordinal_endings: str  # a pattern
    # Whether a noun is in the singular: whole, decimals.
    takes_one: Callable[[str, str], bool] = lambda whole, decimals: whole == "1" and not decimals
    comma_is_decimal: bool = True
    decimals_as_number: int = 3  # more decimals than these are said digit by digit
    of: Callable[[str], str]  # how a noun follows a magnitude: `de euros`, `d'euros`
    after_scores: str = _NEVER  # a pattern: what follows two numbers that are no range
    fraction: Callable[[int, int, str], str | None]  # numerator, denominator, the noun after it
    mixed: Callable[[int, int, int, str], str | None]  # with a whole number before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    year: Callable[[int, str], str]
    before_dates: str  # a pattern: what makes 3/4 a day
    clock: Callable[[int, int, bool], str]  # hour, minute, and whether a word for hours follows
    before_times: str = _NEVER  # a pattern: what makes 14.30 a time
    hours_mark: str  # a pattern: what may follow 14:30
    half_day: Callable[[int, bool], str]  # hour, whether after noon; `{}` is for the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Roman:
    ruler: Callable[[int, str], str]  # the numeral after a name
    century: Callable[[int], str]  # after the word for it
    centuries: str  # a pattern
    nth: Callable[[int, str], str | None]  # the numeral before a noun: II Guerra
    endings: str = _NEVER  # a pattern: XIX*e* siècle


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTable:
    words: Words
    numbers: Numbers
    dates: Dates
    roman: Roman
    name_cents: bool = True  # whether the word for cents is said
    degree_is_ordinal: bool = True  # 1° may be the first
    per: Callable[[str], str]
    phones: str  # a pattern
    before_phones: str  # a pattern: what makes digits a telephone number
    phone_pairs: bool = False

    def digits(self, text: str) -> str:
        """Each digit by itself."""
        return " ".join(self.numbers.count(int(each), "") for each in text if each.isdecimal())

    def spell(self, text: str) -> str:
        """Letters and digits by their names."""
        return " ".join(
            self.digits(each) if each.isdecimal() else self.words.letters.get(each.lower(), each)
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
        mark = self.words.phrases.comma if mark == "," else self.words.phrases.point
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
