"""Finds the spans of a text that are not said as they are written, and the words to say instead.

Rules are tried in their order, each on the original text: what one rule has claimed no later one gets, and what a rule
says is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


# What a rule makes of a match: words for all of it, words for some of its groups (by number or name) or for spans of
# the text, or None, when it is not what it looks like.
Where = int | str | tuple[int, int]
Reading = str | Sequence[tuple[Where, str]] | None
Read = Callable[[Any, Dialect], Reading]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and what is said for its matches.

    Two things make it cheap where it has nothing to say: a text that lacks one of `needs` is not searched (a set stands
    for any of its characters, a pattern for a match of it), and with `at` it is tried only where `at` matches.
    """

    name: str
    pattern: Any
    read: Read
    needs: tuple[frozenset[str] | Any, ...]
    at: Any = None


@dataclass(frozen=True, slots=True)
class Ruleset:
    """How a language is read: rules by kind, in the order in which they are tried, and those for whatever is left."""

    kinds: dict[str, list[Rule]]
    last: list[Rule]
    code_block: str  # what is said in place of a block of code


def rule(name: str, pattern: str, read: Read | str, *needs: Any, at: Any = None, flags: int = 0) -> Rule:
    """`read` is a function, or the words themselves. A string of `needs` is a set of characters."""
    words = read
    function: Read = (lambda _match, _dialect: words) if isinstance(words, str) else words
    sets = tuple(frozenset(need) if isinstance(need, str) else need for need in needs)
    return Rule(name, regex.compile(pattern, flags), function, sets, at)


def find_claims(
    rules: Iterable[Rule], text: str, dialect: Dialect, untouchable: Iterable[tuple[int, int]] = ()
) -> list[Claim]:
    """The claims of `rules` on `text`, in order. They do not overlap, nor reach into what is `untouchable`."""
    taken = bytearray(len(text))
    for start, end in untouchable:
        taken[start:end] = b"\1" * (end - start)
    searched, found = _Searched(text), list[Claim]()
    for each in rules:
        if not searched.has(each.needs):
            continue
        for match in searched.matches(each):
            claims = _claims(each, match, dialect)
            if any(taken.find(1, claim.start, claim.end) >= 0 for claim in claims):
                continue
            for claim in claims:
                taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
            found += claims
    return sorted(found)


class _Searched:
    """A text, and what is known of it already."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._characters = frozenset(text)
        self._has: dict[int, bool] = {}
        self._starts: dict[int, list[int]] = {}

    def has(self, needs: tuple[frozenset[str] | Any, ...]) -> bool:
        for need in needs:
            if isinstance(need, frozenset):
                if need.isdisjoint(self._characters):
                    return False
            elif not self._finds(need):
                return False
        return True

    def _finds(self, need: Any) -> bool:
        if id(need) not in self._has:
            self._has[id(need)] = need.search(self._text) is not None
        return self._has[id(need)]

    def matches(self, each: Rule) -> Iterator[Any]:
        if each.at is None:
            yield from each.pattern.finditer(self._text)
            return
        starts = self._starts.get(id(each.at))
        if starts is None:
            starts = self._starts[id(each.at)] = [match.start() for match in each.at.finditer(self._text)]
        end = 0
        for start in starts:
            if start >= end and (match := each.pattern.match(self._text, start)):
                yield match
                end = match.end()


def _claims(each: Rule, match: Any, dialect: Dialect) -> list[Claim]:
    reading = each.read(match, dialect)
    if reading is None:
        return []
    groups = [(0, reading)] if isinstance(reading, str) else reading
    spans = ((where if isinstance(where, tuple) else match.span(where), words) for where, words in groups)
    return [
        Claim(_first(match.string, start, end, words), end, words, each.name)
        for (start, end), words in spans
        if start < end
    ]


def _first(text: str, start: int, end: int, words: str) -> int:
    """Where what is said begins. The space before it may be the space between two sentences, which is in neither."""
    body = text[start:end]
    return end - len(body.lstrip()) if words.strip() and not body.isspace() else start
