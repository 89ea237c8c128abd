"""Finds the spans of a text that are not said as they are written, and the words to say instead.

Rules are tried in their order, each on the original text. A claim closes its span to all later rules, and the words of
a rule are never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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


# The reading of a match: words for the match, for some of its groups (by number or name) or for spans of the text, or
# None if the match is not what it looks like.
Where = int | str | tuple[int, int]
SpokenWords = str | Sequence[tuple[Where, str]] | None
ReadMatch = Callable[[Any, Dialect], SpokenWords]


@dataclass(frozen=True)
class Rule:
    """A pattern, which is compiled when a text is first searched for it, and what is said for its matches.

    Two things make it cheap on ordinary text: a text that lacks one of `needs` is not searched (a set stands
    for any of its characters, a pattern for any match), and with `at` the rule is tried only where `at` matches.

    A rule sees the text with ordinary capitals. One that is `as_written` sees the text as it is, and each claim of its
    matches stands for itself.
    """

    name: str
    expression: str
    flags: int
    read: ReadMatch
    needs: tuple[frozenset[str] | Any, ...]
    at: Any = None
    as_written: bool = False

    @cached_property
    def pattern(self) -> Any:
        return regex.compile(self.expression, self.flags)

    def compile(self) -> None:
        self.pattern  # noqa: B018


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The rules of a language by kind, in the order in which they are tried, and the `last` rules for the rest.

    `alone` are tried before all of them on a text that is spoken by itself.
    """

    kinds: dict[str, list[Rule]]
    last: list[Rule]
    code_block: str  # what is said in place of a block of code
    alone: list[Rule]
    recase: Callable[[str], str] = str  # returns a text with ordinary capitals, as long as the original


def rule(
    name: str,
    pattern: str,
    read: ReadMatch | str,
    *needs: Any,
    at: Any = None,
    flags: int = 0,
    as_written: bool = False,
) -> Rule:
    """`read` is a function, or the words themselves. A string of `needs` is a set of characters."""
    words = read
    function: ReadMatch = (lambda _match, _dialect: words) if isinstance(words, str) else words
    sets = tuple(frozenset(need) if isinstance(need, str) else need for need in needs)
    return Rule(name, pattern, flags, function, sets, at, as_written)


def rules_at(at: Any, *always: Any) -> Callable[..., Rule]:
    """A `rule` that is tried only where `at` matches, and that also needs `always`."""

    def make(name: str, pattern: str, read: ReadMatch | str, *needs: Any) -> Rule:
        return rule(name, pattern, read, *always, *needs, at=at)

    return make


class Rules:
    """Rules in the order in which they are tried, without those whose `needs` a text does not meet."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        bits = {need: 1 << index for index, need in enumerate({need: 0 for each in rules for need in each.needs})}
        self._by_character = dict[str, int]()  # the needs that each character meets
        for need in bits:
            for character in need if isinstance(need, frozenset) else ():
                self._by_character[character] = self._by_character.get(character, 0) | bits[need]
        self._by_pattern = [(need, bit) for need, bit in bits.items() if not isinstance(need, frozenset)]
        self._rules = [(sum(bits[need] for need in set(each.needs)), each) for each in rules]

    def candidates(self, text: str) -> list[Rule]:
        """The rules whose needs `text` meets."""
        met = 0
        for character in set(text):
            met |= self._by_character.get(character, 0)
        for pattern, bit in self._by_pattern:
            if pattern.search(text):
                met |= bit
        return [each for needed, each in self._rules if needed & met == needed]


def find_claims(
    rules: Rules,
    text: str,
    dialect: Dialect,
    untouchable: Iterable[tuple[int, int]] = (),
    recase: Callable[[str], str] = str,
) -> list[Claim]:
    """The claims of `rules` on `text`, in order. They neither overlap nor touch the `untouchable` ranges."""
    taken = bytearray(len(text))
    for start, end in untouchable:
        taken[start:end] = b"\1" * (end - start)
    starts, found = dict[Any, list[int]](), list[Claim]()
    recased = recase(text)
    for each in rules.candidates(text if recased == text else f"{text}\n{recased}"):
        for match in _matches(each, text if each.as_written else recased, starts):
            claims = _claims(each, match, dialect)
            free = [claim for claim in claims if taken.find(1, claim.start, claim.end) < 0]
            if len(free) < len(claims):
                claims = free if each.as_written else []
            for claim in claims:
                taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
            found += claims
    return sorted(found)


def _matches(each: Rule, text: str, starts: dict[Any, list[int]]) -> Iterator[Any]:
    """`starts` keeps where each `at` matches in the text: many rules have the same."""
    if each.at is None:
        yield from each.pattern.finditer(text)
        return
    if each.at not in starts:
        starts[each.at] = [match.start() for match in each.at.finditer(text)]
    end = 0
    for start in starts[each.at]:
        if start >= end and (match := each.pattern.match(text, start)):
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
    """Where a claim begins: after leading space, which may be the space between two sentences, and is in neither."""
    body = text[start:end]
    return end - len(body.lstrip()) if words.strip() and not body.isspace() else start
