"""Pieces of patterns that many rules share."""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.matching import rules_at
from kokoro_server.text.spoken.patterns import DIGITS, any_of

# Neither within a word or a number, nor within its decimals.
LEFT = r"(?<![\p{L}\p{N}^])(?<![0-9][.,:/])"
# As LEFT, and after the sign in 4x100m and 10"x12".
LEFT_OR_TIMES = r"(?<![\p{N}^])(?:(?<!\p{L})|(?<=[0-9][\"″'′]?[x×X]))(?<![0-9][.,:/])"
RIGHT = r"(?![\p{L}\p{N}])(?![.,:][0-9])"
INTEGER = (
    r"(?:[0-9]{1,2}(?:,[0-9]{2}(?![0-9]))++,[0-9]{3}(?![0-9,])|[0-9]{1,3}(?:,[0-9]{3})++|"
    r"[0-9]{1,3}(?:[\xa0\u2009\u202f][0-9]{3})++|[0-9]++)(?![0-9])"
)
NUMBER = rf"(?:{INTEGER}(?:\.[0-9]++)?+|\.[0-9]++)"
MAGNITUDES = vocabulary.load("english_units").words("magnitudes")
MONTH_NAMES = vocabulary.load("english").list("months")
MONTHS = {name[:3]: name for name in MONTH_NAMES}
FULL_MONTH = "|".join(MONTH_NAMES)
SHORT_MONTH = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
# Whether a dot belongs to an abbreviation alone, and ends no sentence: in a claim it then goes with the abbreviation.
OWN_DOT = r"(?:\.(?!\s*+\Z|\s*+\n|\s++[\"“‘'(]?[A-Z]))"
# Before a quantity that is an adjective: a 3' pole.
DETERMINER = regex.compile(
    r"(?i)\b(?:an?|\p{L}+['’]s|another|the|this|that|each|every|one|his|her|its|our|my|your|their|new|single)\s"
    r"(?:\p{Ll}+\s)?[*_]*\Z"
)


# Where matches can begin. `re` is quicker than `regex` at what both can do.
AT_NUMBER = re.compile(r"(?<![0-9])[0-9]|[.(](?=[0-9])")
AT_CODE = re.compile(r"(?<![^\W_])(?:[^\W\d_]{1,20}+[-‑]?+)?+[0-9]")
AT_DOTTED = re.compile(r"(?<![\w.'’@/&])[^\W\d_]{1,10}+\.")
AT_WORD_BEFORE_NUMBER = re.compile(r"(?<![\w.'’&])[^\W\d_]{1,8}+(?=\s#?[0-9])")
number_rule = rules_at(AT_NUMBER, DIGITS)
# Needs of rules.
NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def one_of_many(words: Iterable[str]) -> str:
    """As `any_of`, but quicker with hundreds of words: those that begin with the same two letters are one branch."""
    rest = defaultdict[str, list[str]](list)
    for word in words:
        rest[word[:2]].append(word[2:])
    return "|".join(f"{re.escape(first)}(?:{any_of(each)})" for first, each in sorted(rest.items(), reverse=True))


class AnyWord:
    """A need: one of some words of ASCII letters. Much quicker than a pattern with all of them."""

    def __init__(self, words: Iterable[str], *, digits: bool = False) -> None:
        """`digits`: a digit is part of a word, as in b4. Of a word with other signs, any part is enough."""
        self._table = _WITH_DIGITS if digits else _LETTERS_ALONE
        self._words = frozenset(part for word in words for part in _parts(word, self._table))

    def search(self, text: str) -> bool:
        return not self._words.isdisjoint(_parts(text, self._table))


def _part_table(kept: str) -> bytes:
    """Makes spaces of all ASCII characters that are not `kept`."""
    return bytes(each if chr(each) in kept or each > 127 else ord(" ") for each in range(256))


_LETTERS_ALONE, _WITH_DIGITS = _part_table(string.ascii_letters), _part_table(string.ascii_letters + string.digits)


@lru_cache(4)  # the needs of all rules ask for the parts of one text
def _parts(text: str, table: bytes) -> frozenset[bytes]:
    return frozenset(text.encode("utf-8", "surrogatepass").translate(table).split())
