"""A sentence with its phonemes, and the words that these belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kokoro_server.languages import Language
from kokoro_server.text.clause_words import clause_words
from kokoro_server.text.splitter import TextSpan, grapheme_ends
from kokoro_server.text.traced import Traced

_TAIL = re.compile(r"\S*\Z")
_SOUNDLESS = frozenset("ˈˌːʰʲ")  # stress, length and other marks, which Unicode counts as letters
CLAUSE_WORDS = 4  # words of a clause, at least, for a cut where no mark is
_NEAR = 100  # characters around a cut in which the end of a grapheme is looked for


@dataclass(frozen=True, slots=True)
class PhonemizedWord:
    """`original[start:end]` is pronounced as `phonemes[phoneme_start:phoneme_end]`.

    A `phrase` is several words whose phonemes cannot be assigned to the single words. For `read_as` see `Token`. Where
    a phrase or a `breakable` word is said in several, a piece may end between these.
    """

    start: int
    end: int
    phoneme_start: int
    phoneme_end: int
    phrase: bool = False
    read_as: str = ""
    breakable: bool = False

    def shifted(self, by: int) -> PhonemizedWord:
        """The same word, with its phonemes `by` positions further on."""
        return replace(self, phoneme_start=self.phoneme_start + by, phoneme_end=self.phoneme_end + by)


FindWords = Callable[[], tuple[PhonemizedWord, ...]]


@dataclass(frozen=True, eq=False)
class PhonemizedSentence:
    span: TextSpan
    phonemes: str
    find_words: FindWords = tuple
    language: Language | None = None

    @cached_property
    def words(self) -> tuple[PhonemizedWord, ...]:
        """The words in order. They do not overlap, neither in the text nor in the phonemes.

        They are computed on demand: most clients do not ask for them, and most sentences can be cut without them.
        """
        return self.find_words()

    def clause_starts(self) -> list[int]:
        """Where in the phonemes a word stands that begins a clause, though no mark is before it.

        At least CLAUSE_WORDS words are between it and the mark before it, and the next one.
        """
        table = clause_words(self.language)
        if table is None or any(word.phrase or word.breakable for word in self.words):
            return []
        words, found, begin = self.words, list[int](), 0
        texts = [self.span.text[word.start - self.span.start : word.end - self.span.start] for word in words]
        for end in (*self._clause_ends(), len(words)):
            before = 0
            for start in table.starts(texts[begin:end]):
                if start - before >= CLAUSE_WORDS and begin + start <= end - CLAUSE_WORDS:
                    found.append(words[begin + start].phoneme_start)
                    before = start
            begin = end
        return found

    def _clause_ends(self) -> Iterator[int]:
        """The indices of the words that a mark is before."""
        for index in range(1, len(self.words)):
            gap = self.phonemes[self.words[index - 1].phoneme_end : self.words[index].phoneme_start]
            if gap.strip():
                yield index

    def traced_to(self, original: Traced) -> PhonemizedSentence:
        """The same, with offsets in the text that this one's was made of."""
        start, end = original.origin(self.span.start, self.span.end)

        def find_words() -> tuple[PhonemizedWord, ...]:
            places = (original.origin(word.start, word.end) for word in self.words)
            return tuple(
                replace(word, start=place[0], end=place[1]) for word, place in zip(self.words, places, strict=True)
            )

        return PhonemizedSentence(replace(self.span, start=start, end=end), self.phonemes, find_words, self.language)

    def split_at(self, cuts: Sequence[int]) -> Iterator[PhonemizedSentence]:
        """The parts between these `cuts` of the phonemes, each with its words and its share of the text."""
        if not cuts and self.phonemes == self.phonemes.strip():
            span = self.span.between(self.span.start, self.span.end)
            yield PhonemizedSentence(span, self.phonemes, lambda: self.words, self.language)
            return
        remaining = list(reversed(self.words))
        start, text_start = 0, self.span.start
        for stop in (*cuts, len(self.phonemes)):
            words = self._take_words(stop, remaining)
            text_stop = self._text_cut(remaining, words[-1].end if words else text_start)
            body = self.phonemes[start:stop]
            lead = len(body) - len(body.lstrip())
            shifted = tuple(word.shifted(-start - lead) for word in words)
            span = self.span.between(text_start, text_stop)
            yield PhonemizedSentence(span, body.strip(), known_words(shifted), self.language)
            start, text_start = stop, text_stop

    def _take_words(self, stop: int, remaining: list[PhonemizedWord]) -> list[PhonemizedWord]:
        """Takes the words that begin before `stop` off the end of `remaining`."""
        words: list[PhonemizedWord] = []
        while remaining and remaining[-1].phoneme_start < stop:
            word = remaining.pop()
            if word.phoneme_end > stop:
                word, *rest = self._split_word(word, stop)
                remaining += rest
            words.append(word)
        return words

    def _split_word(self, word: PhonemizedWord, stop: int) -> list[PhonemizedWord]:
        """The two parts of a word too long for one piece. Its characters are divided about as its phonemes are."""
        phonemes_before = self.phonemes[word.phoneme_start : stop].rstrip()
        phonemes_after = self.phonemes[stop : word.phoneme_end].lstrip()
        share = len(phonemes_before) / (word.phoneme_end - word.phoneme_start)
        text = self.span.text[word.start - self.span.start : word.end - self.span.start]
        position = _split_position(text, share)
        text_before, text_after = text[:position].rstrip(), text[position:].lstrip()
        before = replace(word, end=word.start + len(text_before), phoneme_end=word.phoneme_start + len(phonemes_before))
        after = replace(word, start=word.end - len(text_after), phoneme_start=word.phoneme_end - len(phonemes_after))
        return [before, after] if text_after else [before]

    def _text_cut(self, remaining: Sequence[PhonemizedWord], low: int) -> int:
        """Where in the text to cut before the next word. An opening quote goes with that word."""
        if not remaining:
            return self.span.end
        high = remaining[-1].start
        gap = self.span.text[low - self.span.start : high - self.span.start]
        tail = _TAIL.search(gap)
        return high - len(tail[0]) if tail and len(tail[0]) < len(gap) else high


def known_words(words: tuple[PhonemizedWord, ...]) -> FindWords:
    return lambda: words


def has_sound(phonemes: str) -> bool:
    """Whether `phonemes` has a sound: with marks alone the model would mumble."""
    for character in phonemes:  # noqa: SIM110 - twice as fast as any(), and asked of every word
        if character.isalpha() and character not in _SOUNDLESS:
            return True
    return False


def _split_position(text: str, share: float) -> int:
    """About `share` of the way through `text`: after a space if one is near, else between two graphemes."""
    target = max(1, round(len(text) * share))
    space = text.rfind(" ", target // 2, target + 1)
    if space > 0:
        return space + 1
    near = grapheme_ends(text, max(0, target - _NEAR), target + _NEAR)
    return min(near, key=lambda end: abs(end - target), default=len(text))
