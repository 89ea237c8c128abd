"""Pieces of patterns that languages share."""

from __future__ import annotations

from collections.abc import Iterable

import regex

DIGITS = "0123456789"


def any_of(words: Iterable[str]) -> str:
    """One of `words`, the longest first."""
    return "|".join(regex.escape(word) for word in sorted(words, key=len, reverse=True))
