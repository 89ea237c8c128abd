"""Finds the spans of a text that are not said as they are written, and the words to say instead.

Rules are tried in their order, each on the original text: what one rule has claimed no later one gets, and what a rule
says is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import regex


class Claim(NamedTuple):
    """`text[start:end]` is said as `words`. Without words it is silent, a single space only keeps its sides apart."""

    start: int
    end: int
    words: str
    rule: str


@dataclass(frozen=True, slots=True)
class Dialect:
    british: bool


# What a rule makes of a match: words for all of it, words for some of its groups (by number or name) or for spans of the
# text, or None, when it is not what it looks like.
Where = int | str | tuple[int, int]
Reading = str | Sequence[tuple[Where, str]] | None
Read = Callable[[Any, Dialect], Reading]


@dataclass(frozen=True, slots=True)
class Rule:
    """`needs`: sets of characters; a text that has none of one of them is not searched."""

    name: str
    pattern: Any
    read: Read
    needs: tuple[frozenset[str], ...]


def rule(name: str, pattern: str, read: Read | str, *needs: str, flags: int = 0) -> Rule:
    """`read` is a function, or the words themselves. Each of `needs` is a string of which one character must occur."""
    words = read
    function: Read = (lambda _match, _dialect: words) if isinstance(words, str) else words
    return Rule(name, regex.compile(pattern, flags), function, tuple(map(frozenset, needs)))


def find_claims(
    rules: Iterable[Rule], text: str, dialect: Dialect, untouchable: Iterable[tuple[int, int]] = ()
) -> list[Claim]:
    """The claims of `rules` on `text`, in order. They do not overlap, nor reach into what is `untouchable`."""
    taken = bytearray(len(text))
    for start, end in untouchable:
        taken[start:end] = b"\1" * (end - start)
    present, found = frozenset(text), list[Claim]()
    for each in rules:
        if any(need.isdisjoint(present) for need in each.needs):
            continue
        for match in each.pattern.finditer(text):
            claims = _claims(each, match, dialect)
            if any(taken.find(1, claim.start, claim.end) >= 0 for claim in claims):
                continue
            for claim in claims:
                taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
            found += claims
    return sorted(found)


def _claims(each: Rule, match: Any, dialect: Dialect) -> list[Claim]:
    reading = each.read(match, dialect)
    if reading is None:
        return []
    groups = [(0, reading)] if isinstance(reading, str) else reading
    spans = ((where if isinstance(where, tuple) else match.span(where), words) for where, words in groups)
    return [Claim(start, end, words, each.name) for (start, end), words in spans if start < end]
