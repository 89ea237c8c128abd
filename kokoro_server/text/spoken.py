"""A sentence and how it is pronounced, down to the words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import regex

from kokoro_server.text.splitter import Span

_TAIL = re.compile(r"\S*\Z")
_SOUNDLESS = frozenset("ˈˌːʰʲ")  # letters to Unicode
_GRAPHEME = regex.compile(r"\X")


@dataclass(frozen=True, slots=True)
class Word:
    """`original[start:end]` is heard as `phonemes[first:last]`.

    A `phrase` is several words of which it is not known which phonemes are whose.
    """

    start: int
    end: int
    first: int
    last: int
    phrase: bool = False

    def moved(self, by: int) -> Word:
        """The same word where the phonemes stand `by` places further on."""
        return Word(self.start, self.end, self.first + by, self.last + by, self.phrase)


Finding = Callable[[], tuple[Word, ...]]


@dataclass(frozen=True, eq=False)
class Spoken:
    span: Span
    phonemes: str
    find_words: Finding = tuple

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """In order; they do not overlap, neither in the text nor in the phonemes.

        Worked out when asked for: most clients do not, and most sentences can be cut without.
        """
        return self.find_words()

    def parts(self, places: Sequence[int]) -> Iterator[Spoken]:
        """The sentence cut at these places of its phonemes; to each part its words and its share of the text."""
        if not places and self.phonemes == self.phonemes.strip():
            yield Spoken(self.span.between(self.span.start, self.span.end), self.phonemes, lambda: self.words)
            return
        ahead = list(reversed(self.words))
        start, text_start = 0, self.span.start
        for stop in (*places, len(self.phonemes)):
            words = self._words_until(stop, ahead)
            text_stop = self._text_before(ahead, words[-1].end if words else text_start)
            body = self.phonemes[start:stop]
            lead = len(body) - len(body.lstrip())
            moved = tuple(word.moved(-start - lead) for word in words)
            yield Spoken(self.span.between(text_start, text_stop), body.strip(), found(moved))
            start, text_start = stop, text_stop

    def _words_until(self, stop: int, ahead: list[Word]) -> list[Word]:
        """Takes those that begin before `stop` off the end of `ahead`."""
        words: list[Word] = []
        while ahead and ahead[-1].first < stop:
            word = ahead.pop()
            if word.last > stop:
                word, *rest = self._halves(word, stop)
                ahead += rest
            words.append(word)
        return words

    def _halves(self, word: Word, stop: int) -> list[Word]:
        """A word too long for one piece: its characters go by its share of the phonemes, as near as can be."""
        heard_before = self.phonemes[word.first : stop].rstrip()
        heard_after = self.phonemes[stop : word.last].lstrip()
        share = len(heard_before) / (word.last - word.first)
        text = self.span.text[word.start - self.span.start : word.end - self.span.start]
        place = _place(text, share)
        said_before, said_after = text[:place].rstrip(), text[place:].lstrip()
        before = replace(word, end=word.start + len(said_before), last=word.first + len(heard_before))
        after = replace(word, start=word.end - len(said_after), first=word.last - len(heard_after))
        return [before, after] if said_after else [before]

    def _text_before(self, ahead: Sequence[Word], low: int) -> int:
        """Where in the text to cut before the next word; an opening quote goes with that."""
        if not ahead:
            return self.span.end
        high = ahead[-1].start
        gap = self.span.text[low - self.span.start : high - self.span.start]
        tail = _TAIL.search(gap)
        return high - len(tail[0]) if tail and len(tail[0]) < len(gap) else high


def found(words: tuple[Word, ...]) -> Finding:
    return lambda: words


def is_speech(phonemes: str) -> bool:
    """Whether there is a sound in it: marks alone would make the model mumble."""
    return any(character.isalpha() and character not in _SOUNDLESS for character in phonemes)


def _place(text: str, share: float) -> int:
    """About `share` of the way through: after a space if there is one near, else between two graphemes."""
    target = max(1, round(len(text) * share))
    space = text.rfind(" ", target // 2, target + 1)
    if space > 0:
        return space + 1
    ends = [match.end() for match in _GRAPHEME.finditer(text)]
    return min(ends, key=lambda end: abs(end - target), default=len(text))
