"""The word error rate of a transcript."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import regex

from kokoro_server.languages import Language
from kokoro_server.text import spoken

# A character of a script without spaces is a word of its own; a mark, as of Hindi's vowels, belongs to its letter.
_ALONE = r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}]"
_WORD = regex.compile(rf"{_ALONE}|(?:(?!{_ALONE})[\p{{L}}\p{{M}}\p{{N}}])+")
_APOSTROPHE = regex.compile(r"['’]")
_INITIAL = regex.compile(r"(?<!\p{L})(\p{L})\.(?=\p{L}(?!\p{L}))")  # "p.m." is "pm"


def word_error_rate(said: str, heard: str, language: Language | None) -> float:
    """Edits that turn `said` into `heard`, per word of `said`.

    Case and marks do not count, nor whether numbers, dates and sums are in figures or words: Whisper writes either.
    """
    pairs = [(said, heard)]
    if language:
        pairs.append((spoken.speak(said, language), spoken.speak(heard, language)))
    return min(edits(words(one), words(other)) / max(len(words(one)), 1) for one, other in pairs)


def words(text: str) -> list[str]:
    plain = _APOSTROPHE.sub("", unicodedata.normalize("NFKC", text).casefold())
    return [match[0] for match in _WORD.finditer(_INITIAL.sub(r"\1", plain))]


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    row = np.arange(len(other) + 1)
    for number, word in enumerate(one, 1):
        kept = row[:-1] + np.fromiter((word != candidate for candidate in other), bool, len(other))
        best = np.minimum(row[1:] + 1, kept)
        row = np.minimum.accumulate(np.concatenate([[number], best]) - np.arange(len(row))) + np.arange(len(row))
    return int(row[-1])
