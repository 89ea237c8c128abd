"""A language as the shared rules need it: its words, and its grammar of numbers, dates and Roman numerals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.vocabulary import Currency, Noun, Phrases

_SPACES = regex.compile(r"[\s\u2009\u202f'’]")
_LONGEST_NUMBER = 15  # digits; a longer one is read digit by digit


class Big(NamedTuple):
    """A word that follows a number: three *million*. `of`: a noun is joined to it by a word."""

    word: Noun
    of: bool


@dataclass(frozen=True, slots=True)
class Patterns:
    """Arrays of the section [patterns]. One that a file leaves out never matches."""

    counted: str  # words that a number follows: chapter, page
    ordinal_endings: str
    after_scores: str  # what follows two numbers that are no range
    before_dates: str  # what makes 3/4 a day
    before_times: str  # what makes 14.30 a time
    hours_mark: str  # what may follow 14:30
    centuries: str
    numeral_endings: str  # XIX*e* siècle
    queens: str  # names of women
    phones: str  # `D` is a digit
    before_phones: str  # what makes digits a telephone number
    masculine: str  # nouns
    feminine: str
    feminine_endings: str


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
    greek: Mapping[str, str]
    address_marks: Mapping[str, str]
    months: list[str]
    short_months: Mapping[str, int]
    spelled: frozenset[str]  # acronyms that espeak would take for words
    small_words: frozenset[str]  # what follows a number and is no noun
    numbers: Mapping[str, list[str]]  # words by number, each list from zero on; `_` where there is none
    patterns: Patterns

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
            greek=file.words("greek"),
            address_marks=file.words("address_marks"),
            months=months,
            short_months=spellings({key: months.index(name) + 1 for key, name in file.words("short_months").items()}),
            spelled=frozenset(file.list("spelled")),
            small_words=frozenset(file.list("small_words")),
            numbers={key: words.split() for key, words in file.words("numbers").items()},
            patterns=Patterns(**{each.name: file.pattern(each.name) for each in fields(Patterns)}),
        )


class LanguageTable(ABC):
    """A language. Methods that take a noun make the number agree with it; the noun may be empty."""

    name: str  # of the file of words
    comma_is_decimal = True
    decimals_as_number = 3  # more decimals than these are said digit by digit
    name_cents = True  # whether the word for cents is said
    degree_is_ordinal = True  # 1° may be the first
    phone_pairs = False
    scales: tuple[tuple[int, Noun], ...] = ()  # names of powers of ten, the greatest first
    greatest_denominator = 10
    of_halves = True  # whether `of` stands between two halves and a noun
    nth_endings = ("º", "ª")  # of ordinals, masculine and feminine
    last_ordinal = 10  # greater numbers of rulers and centuries are cardinals

    def __init__(self) -> None:
        self.words = Words.load(self.name, self.plural, self.spellings)
        patterns = self.words.patterns
        self._feminine = regex.compile(
            rf"(?i)(?!(?:{patterns.masculine})\Z)(?:.*(?:{patterns.feminine_endings})|{patterns.feminine})"
        )
        self._queens = regex.compile(patterns.queens)

    def plural(self, word: str) -> str:
        return word

    def spellings(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Also with other spellings of the keys."""
        return dict(entries)

    def is_feminine(self, noun: str) -> bool:
        return self._feminine.fullmatch(noun.partition(" ")[0]) is not None

    @abstractmethod
    def count(self, number: int, noun: str = "") -> str: ...

    @abstractmethod
    def ordinal(self, number: int, ending: str, noun: str = "") -> str:
        """`ending` is as it is written: `º`, `ème`, `वीं`."""

    @abstractmethod
    def clock(self, hour: int, minute: int, marked: bool) -> str:
        """`marked`: a word for hours follows."""

    @abstractmethod
    def half_day(self, hour: int, after_noon: bool) -> str:
        """`{}` is for the time."""

    def cardinal(self, number: int) -> str:
        if number < 1000:
            return self.below_thousand(number)
        power, noun = next(scale for scale in self.scales if number >= 10 ** scale[0])
        high, rest = divmod(number, 10**power)
        name = noun.one if high == 1 else noun.many
        before = name if number < 2000 else f"{self.count(high, name)} {name}"
        return self.with_rest(before, rest) if rest else before

    def with_rest(self, before: str, rest: int) -> str:
        return f"{before} {self.cardinal(rest)}"

    def below_thousand(self, number: int) -> str:
        raise NotImplementedError

    def year(self, number: int, noun: str) -> str:
        return self.count(number, noun)

    def takes_one(self, whole: str, decimals: str) -> bool:
        """Whether a noun is in the singular."""
        return whole == "1" and not decimals

    def of(self, noun: str) -> str:
        """The noun after a magnitude: `de euros`, `d'euros`."""
        return f"{self.words.phrases.of} {noun}".lstrip()

    def per(self, unit: str) -> str:
        return self.words.phrases.per.format(unit)

    def half(self, noun: str) -> str:
        """A half of what `noun` names."""
        return self.words.numbers["halves"][self.is_feminine(noun)]

    def fraction(self, upper: int, lower: int, noun: str) -> str | None:
        """None if it has no name. `noun` comes after it."""
        if not 0 < upper < 100 or not 1 < lower <= self.greatest_denominator:
            return None
        if (upper, lower) == (1, 2) and noun:
            return self.half(noun)
        names = self.words.numbers["fractions"]
        name = names[lower] if lower < len(names) else self.ordinal(lower, "")
        name = self.plural(name) if upper > 1 else name
        of = f" {self.words.phrases.of}" if noun and (lower > 2 or self.of_halves) else ""
        return f"{self.count(upper, name)} {name}{of}"

    def mixed(self, whole: int, upper: int, lower: int, noun: str) -> str | None:
        """A fraction with a whole number before it."""
        joint = self.words.phrases.with_fraction
        if (upper, lower) == (1, 2):
            half = self.words.numbers["halves"][self.is_feminine(noun)]
            return f"{self.count(whole, noun if self.is_feminine(noun) else '')} {joint} {half}"
        part = self.fraction(upper, lower, "")
        return part and f"{self.count(whole)} {joint} {part}"

    def ruler(self, number: int, name: str) -> str:
        """The numeral after a name."""
        if number > self.last_ordinal:
            return self.count(number)
        return self.ordinal(number, self.nth_endings[1] if self._queens.fullmatch(name) else "")

    def century(self, number: int) -> str:
        """The numeral after the word for century."""
        return self.ruler(number, "")

    def nth(self, number: int, noun: str) -> str | None:
        """The numeral before a noun: II Guerra."""
        return self.ordinal(number, self.nth_endings[self.is_feminine(noun)])

    def digits(self, text: str) -> str:
        """Each digit by itself."""
        return " ".join(self.count(int(each), "") for each in text if each.isdecimal())

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
        return self.count(int(digits), noun)

    def number(self, text: str, noun: str = "") -> str:
        """A number as it is written, before `noun`."""
        whole, mark, decimals = self.parse(text)
        if not decimals:
            return self.integer(whole, noun)
        mark = self.words.phrases.comma if mark == "," else self.words.phrases.point
        return f"{self.integer(whole)} {mark} {self._decimals(decimals)}"

    def _decimals(self, text: str) -> str:
        significant = text.lstrip("0०")
        if len(text) > self.decimals_as_number or not significant:
            return self.digits(text)
        zeros = self.digits(text[: len(text) - len(significant)])
        return f"{zeros} {self.count(int(significant), '')}".lstrip()

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
        if not self.comma_is_decimal and mark == ",":
            return True
        is_group = len(after) == 3 and len(whole) < 4 and whole.lstrip("0०") != ""
        return is_group and (money or (self.comma_is_decimal and mark == "."))

    def noun(self, noun: Noun, amount: str) -> str:
        whole, _, decimals = self.parse(amount)
        return noun.one if self.takes_one(whole.lstrip("0०") or "0", decimals) else noun.many
