"""English words that are written alike and said in several ways: the words around one decide which it is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

# A part of speech for misaki's lexicon, such as VERB, or the name of a reading of ours, such as METAL.
Sense = str
Features = frozenset[str]

_REACH = 8  # words before and after one that are looked at
_SKIPPED = frozenset("-–—‐‑\"'“”‘’«»()[]*_`#") | {"--", "``", "''"}
_SENTENCE_ENDS = frozenset(".!?;:…") | {"...", "?!", "!!", "!?", "??"}
_START, _END = frozenset("^"), frozenset("$")
_INSIDE = "Aa"  # a feature of a word with a capital that does not begin its sentence
_ENDINGS = ("s", "es", "d", "ed", "ing")
_WORD_SCORE, _OWN_SCORE, _NEAR_SCORE = 2, 1, 1
_WORDS_KEPT = 8_192  # whose cues are remembered: most words of a text are the same few
_ANY_WORD = "*"  # the senses of all words that misaki says in one way as a noun and in another as a verb


class _Pattern(NamedTuple):
    """Features of the neighbours of a word, from the nearest to the farthest, and of the word itself."""

    before: tuple[Features, ...]
    own: Features
    after: tuple[Features, ...]

    @classmethod
    def of(cls, text: str) -> _Pattern:
        parts = text.split()
        [place] = [place for place, part in enumerate(parts) if part.startswith("_")]
        sets = [frozenset(part.split("|")) for part in parts]
        own = frozenset(parts[place][1:].split("|")) - {""}
        return cls(tuple(reversed(sets[:place])), own, tuple(sets[place + 1 :]))

    @property
    def score(self) -> int:
        return _WORD_SCORE * (len(self.before) + len(self.after)) + _OWN_SCORE * bool(self.own)

    def fits(self, around: _Surroundings) -> bool:
        return (
            not (self.own and self.own.isdisjoint(around.own))
            and _all_met(self.before, around.before)
            and _all_met(self.after, around.after)
        )


def _all_met(wanted: Sequence[Features], found: Sequence[Features]) -> bool:
    return len(wanted) <= len(found) and not any(map(frozenset.isdisjoint, wanted, found))


class _Cues(NamedTuple):
    """What speaks for a sense."""

    sense: Sense
    patterns: tuple[_Pattern, ...]
    near: Features

    @classmethod
    def of(cls, sense: Sense, text: str) -> _Cues:
        """The parts of `text` are divided by semicolons: one with a `_` is a pattern, the rest are words near by."""
        parts = text.split(";")
        patterns = tuple(_Pattern.of(part) for part in parts if "_" in part)
        return cls(sense, patterns, frozenset(word for part in parts if "_" not in part for word in part.split()))

    def score(self, around: _Surroundings) -> int:
        near = sum(not self.near.isdisjoint(word) for word in (*around.before, *around.after)) if self.near else 0
        return _NEAR_SCORE * near + sum(pattern.score for pattern in self.patterns if pattern.fits(around))


class _Surroundings(NamedTuple):
    own: Features
    before: Sequence[Features]  # the nearest first
    after: Sequence[Features]

    @classmethod
    def of(cls, place: int, words: Sequence[str], tags: Sequence[str]) -> _Surroundings:
        before = [_features(words[at], tags[at]) for at in _visible(words, range(place - 1, -1, -1))]
        after = [_features(words[at], tags[at]) for at in _visible(words, range(place + 1, len(words)))]
        own = {tags[place], tags[place][:2] + "*"}
        if words[place][:1].isupper() and before:
            own.add(_INSIDE)
        return cls(frozenset(own), (*before, _START), (*after, _END))


def _visible(words: Sequence[str], places: range) -> Iterator[int]:
    """The nearest of `places` in the same sentence, without hyphens, quotation marks and brackets."""
    seen = 0
    for place in places[: 2 * _REACH]:
        word = words[place]
        if word in _SENTENCE_ENDS or "\n" in word or seen == _REACH:
            return
        if word not in _SKIPPED and not word.isspace():
            seen += 1
            yield place


def _features(word: str, tag: str) -> Features:
    """How a cue can name a neighbour: its small letters, without an ending, its tag, or the beginning of its tag."""
    small = word.lower()
    stems = (small[: -len(ending)] for ending in _ENDINGS if small.endswith(ending) and len(small) - len(ending) > 2)
    return frozenset((small, tag, tag[:2] + "*", *stems))


class Heteronyms:
    """Chooses between the readings of words. Adds the ones to misaki's lexicon that it does not have."""

    def __init__(self, lexicon: Any) -> None:
        self._readings: dict[str, Any] = lexicon.golds
        said, self._cues = _tables()
        self._cues_by_word = lru_cache(_WORDS_KEPT)(self._cues_of)
        for word, readings in said.items():
            for spelling in {word, word.capitalize()}:
                known = self._readings.get(spelling) or lexicon.silvers.get(spelling)
                known = known if isinstance(known, dict) else {"DEFAULT": known}
                ours = {sense: sounds[lexicon.british] for sense, sounds in readings.items()}
                self._readings[spelling] = known | ours

    def tags(self, words: Sequence[str], tags: Sequence[str]) -> list[str]:
        """The tags, with a sense in the place of the tag of each word whose neighbours decide what it means."""
        chosen = list(tags)
        for place, word in enumerate(words):
            if cues := self._cues_by_word(word):
                around = _Surroundings.of(place, words, tags)
                chosen[place] = next(filter(None, (_best(each, around) for each in cues)), tags[place])
        return chosen

    def _cues_of(self, word: str) -> list[Sequence[_Cues]]:
        own = self._cues.get(word) or self._cues.get(word.lower())
        readings = self._readings.get(word)
        by_tag = isinstance(readings, dict) and ("VERB" in readings or "NOUN" in readings) and not word.isupper()
        return [*([own] if own else []), *([self._cues[_ANY_WORD]] if by_tag else [])]


def _best(cues: Sequence[_Cues], around: _Surroundings) -> Sense | None:
    """The sense with the highest score, the first of equals; None if nothing speaks for any."""
    score, sense = max(((each.score(around), each.sense) for each in cues), key=lambda scored: scored[0])
    return sense if score else None


@cache
def _tables() -> tuple[dict[str, dict[Sense, list[str]]], dict[str, tuple[_Cues, ...]]]:
    """The readings that misaki does not have, American and British, and the cues of the senses of each word."""
    tables = tomllib.loads(Path(__file__).with_name("data").joinpath("heteronyms.toml").read_text(encoding="utf-8"))
    cues = {
        word: tuple(_Cues.of(sense, text) for sense, text in senses.items())
        for words, senses in tables["senses"].items()
        for word in words.split()
    }
    return tables["said"], cues
