"""Words in capitals: misaki spells what it takes for a name, so shouted words are given to it in small letters."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

# Acronyms that misaki misreads. It knows most of them.
_FILE = vocabulary.load("english")
_SAID = _FILE.words("acronyms")
# A run of capitals with one of these in it is shouted.
_SMALL_WORDS = frozenset(vocabulary.load("english_grammar").list("small_words"))
_SPELLED = frozenset(_FILE.list("spelled"))
# Five capitals and more are a word, known or not, unless nobody could say it. Some are spelled all the same.
_INITIALS = frozenset(_FILE.list("initials"))
_UNSAYABLE = re.compile(
    r"[^AEIOUY]{4}|AA|II|UU|[AEIOU]{4}|[^AEIOUY]{3}(?<![STHDN])\Z|\A(?:[^AEIOUY]{3}(?<!R|L)|[^AEIOUY]+\Z)"
)
_VOWEL = re.compile(r"[AEIOUY]")
_LONG = re.compile(r"[A-Z]{5}")
_SHOUTED = re.compile(r"[A-Z][ ,:!?-]{1,3}[A-Z]{2}")
# A whole word: neither McX nor U.S. nor AT&T.
_CAPITALS = r"\p{Lu}[\p{Lu}'’]*+(?![\p{L}\p{N}&]|\.\p{L})"
_WORD = regex.compile(r"\p{Lu}[\p{Lu}'’]*+")


def _run(match: Any, _dialect: Dialect) -> SpokenWords:
    """One small word is no more than IBM AND NASA; with two of them all words are shouted."""
    words = list(_WORD.finditer(match.string, *match.span()))
    small = [word for word in words if word[0] not in ("A", "I") and word[0].lower() in _SMALL_WORDS]
    shouted = [word for word in words if word in small or _is_word(word[0])] if len(small) > 1 else small
    return [(word.span(), word[0].lower()) for word in shouted] or None


def _is_word(text: str) -> bool:
    return len(text) > 3 and _VOWEL.search(text) is not None and text not in _SPELLED


def _name(match: Any, _dialect: Dialect) -> SpokenWords:
    word = match["word"]
    return None if word in _INITIALS or _UNSAYABLE.search(word) else [("word", word.lower())]


RULES = [
    rule(
        "acronym",
        rf"(?<![\p{{L}}\p{{N}}])(?:{any_of(_SAID)})(?![\p{{L}}\p{{N}}])",
        lambda match, _dialect: _SAID[match[0]],
        re.compile("|".join(_SAID)),
    ),
    rule("capitals", rf"(?<![\p{{L}}\p{{N}}.&-]){_CAPITALS}(?:[ ,:!?-]{{1,3}}{_CAPITALS})++", _run, _SHOUTED),
    rule("acronym", r"(?<=\b[Tt]he )WHO(?!\p{L})", "W.H.O", "W"),
    rule("capitals", r"(?<![\p{L}\p{N}.&])(?P<word>[A-Z]{5,24})(?![\p{L}\p{N}&])", _name, _LONG),
]
