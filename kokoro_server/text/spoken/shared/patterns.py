"""Pieces of patterns that the rules share. Digits may be Devanagari."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken.matching import rules_at
from kokoro_server.text.spoken.patterns import SPACE, any_of
from kokoro_server.text.spoken.shared.table import LanguageTable

D = "[0-9०-९]"
DIGITS = "0123456789०१२३४५६७८९"
# Neither within a word or a number, nor within its decimals.
LEFT = rf"(?<![\p{{M}}\p{{N}}^])(?:(?<!\p{{L}})|(?<={D}[x×X]))(?<!{D}[.,:/])"
RIGHT = rf"(?![\p{{L}}\p{{M}}\p{{N}}])(?![.,:]{D})"
WORD_END = r"(?![\p{L}\p{M}\p{N}])"
number_rule = rules_at(re.compile(rf"(?<!{D}){D}"), DIGITS)
# Whether a dot belongs to an abbreviation alone, and ends no sentence: in a claim it then goes with the abbreviation.
OWN_DOT = r"(?:\.(?!\s*+\Z|\s*+\n|\s++[\"“«‘'(¿¡]?\p{Lu}))"
_NOUN = regex.compile(rf"(?:{SPACE}|[*_-])++(?:mil{SPACE})?+(?P<noun>\p{{L}}[\p{{L}}\p{{M}}]++)(?!\.\p{{L}})")
_ARTICLE = r"(?:el|la|del|al|le|il|lo|o|do|ao|no|da|à|au|du)"


def number_pattern(table: LanguageTable) -> str:
    """A number as the language writes it, also with other languages' marks between thousands where these are clear."""
    end = rf"(?!{D})"
    if not table.comma_is_decimal:
        return rf"(?:{D}{{1,3}}(?:,{D}{{2,3}})++{end}|{D}++)(?:\.{D}++)?+"
    return (
        rf"(?:{D}{{1,3}}(?:\.{D}{{3}})++{end}(?:,{D}++)?+|{D}{{1,3}}(?:,{D}{{3}}){{2,}}+{end}(?:\.{D}++)?+|"
        rf"{D}{{1,3}}(?:,{D}{{3}})++\.{D}{{1,2}}{end}|{D}{{1,3}}(?:{SPACE}{D}{{3}})++{end}(?:[.,]{D}++)?+|"
        rf"{D}++(?:[.,]{D}++)?+)"
    )


def amount_pattern(table: LanguageTable) -> str:
    """A number, and a word such as million after it."""
    return (
        rf"(?P<amount>{number_pattern(table)})(?:{SPACE}?(?P<big>{any_of(table.words.magnitudes)})"
        rf"(?:{SPACE}(?:de|di)(?={SPACE})|{SPACE}d['’])?(?![\p{{Ll}}\p{{M}}]))?"
    )


def say_amount(table: LanguageTable, amount: str, big: str | None, noun: str) -> str:
    """The number, and the noun after it, which is in the plural if there is a `big` word."""
    if not big:
        return f"{table.number(amount, noun)} {of_noun(table, amount, noun)}"
    word, of = table.words.magnitudes[big]
    name = table.noun(word, amount)
    return f"{table.number(amount, name)} {name} {table.of(noun) if of else noun}"


def noun_after(table: LanguageTable, match: Any, *, capital: bool = False) -> str:
    """The word after a number, which it counts, if that is neither a small word nor a name."""
    found = _NOUN.match(match.string, match.end())
    if not found or found["noun"].lower() in table.words.small_words or (found["noun"][0].isupper() and not capital):
        return ""
    return str(found["noun"])


def of_noun(table: LanguageTable, number: str, noun: str) -> str:
    """The noun as it follows the number: a million *of* people."""
    whole, _, decimals = table.parse(number, money=True)
    significant = whole.lstrip("0०")
    is_million = not decimals and len(significant) > 6 and not significant[-6:].strip("0०")
    return table.of(noun) if is_million and noun else noun


def counted_before(table: LanguageTable) -> Any:
    """A pattern for words before a number that counts nothing: chapter 21, the 21."""
    return regex.compile(
        rf"(?<![\p{{L}}\p{{M}}])(?:{table.words.patterns.counted}|{_ARTICLE}){SPACE}\Z", regex.IGNORECASE
    )
