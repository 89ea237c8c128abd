"""Where a string of phonemes may be cut in two."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from kokoro_server.text.spoken import is_speech

# A cut comes after a mark and what closes with it. In an address marks stand within the word: no space follows.
_CLOSING = r"[\"”)]*"
_SENTENCE = re.compile(rf"[.!?…]+{_CLOSING}(?=\s|\Z)")
_CLAUSE = re.compile(rf"[;:]{_CLOSING}(?=\s)|[—…]+{_CLOSING}")
_COMMA = re.compile(rf",{_CLOSING}(?=\s)")
_SPACE = re.compile(r"(?=\s)")
_BEST_FIRST = (_SENTENCE, _CLAUSE, _COMMA, _SPACE)
_MARK = re.compile(rf"[;:,.!?…]+{_CLOSING}(?=\s|\Z)|[—…]+{_CLOSING}")
_FULL_STOP = re.compile(r"(?<!\.)[.!?]+(?<!\.\.)[\"”)]*")  # and no ellipsis, after which a sentence may go on
_SPACES = re.compile(r"\s*")

# Never separated from the phoneme before: length, aspiration, palatalisation, tones, syllabic and rhotic marks.
_TRAILING = frozenset("ːʰʲ↓→↗↘ᵊᵝ̃")
_STRESS = frozenset("ˈˌ")  # of the phoneme after

Range = tuple[int, int]
Words = Callable[[], Sequence[Range]]  # where they are, in order; looked at only where it matters


def places(phonemes: str, words: Words, longest: int, first: int | None = None) -> list[int]:
    """The cuts that leave no part longer than `longest` and, if `first` is given, make the first part short.

    None is within one of the `words`, if that can be helped.
    """
    cutter = _Cutter(phonemes, words)
    found: list[int] = []
    start = 0
    if first is not None and (stop := cutter.first(first, longest)) < len(phonemes):
        found.append(stop)
        start = _skip_spaces(phonemes, stop)
    while len(phonemes) - start > longest:
        stop = cutter.best(start, longest)
        found.append(stop)
        start = _skip_spaces(phonemes, stop)
    return found


def first(phonemes: str, words: Words, soft: int, hard: int, least: int = 1) -> int:
    """The end of a first part: of the first sentence; over `soft`, of a clause; and over `hard`, of a word.

    For `least` see `within`.
    """
    return _Cutter(phonemes, words).beginning(soft, hard, least)


def within(phonemes: str, words: Words, limit: int, least: int = 1) -> int:
    """The best place for a cut from `least` to `limit`; else the last one before, else the first one after.

    Never within a word.
    """
    return _Cutter(phonemes, words).between_words(limit, least)


def _skip_spaces(phonemes: str, place: int) -> int:
    spaces = _SPACES.match(phonemes, place)
    return spaces.end() if spaces else place


class _Cutter:
    def __init__(self, phonemes: str, words: Words) -> None:
        self._phonemes = phonemes
        self._find_words = words

    @cached_property
    def _words(self) -> Sequence[Range]:
        return self._find_words()

    def first(self, limit: int, longest: int) -> int:
        """The end of the first sentence; if over `limit`, of its last clause within, else of its first clause."""
        mark = self._first_mark(limit, longest)
        return self.best(0, longest) if mark is None else mark

    def beginning(self, soft: int, hard: int, least: int) -> int:
        mark = self._first_mark(soft, hard, least)
        return self.between_words(hard, least) if mark is None else mark

    def between_words(self, limit: int, least: int) -> int:
        if len(self._phonemes) <= limit:
            return len(self._phonemes)
        if mark := self._best_mark(0, limit, least):
            return mark
        gaps = [mark.end() for mark in self._marks(_SPACE, 1, len(self._phonemes))]
        spoken = [gap for gap in gaps if is_speech(self._phonemes[:gap])]
        earlier = [gap for gap in spoken if gap <= limit]
        return earlier[-1] if earlier else next(iter(spoken), len(self._phonemes))

    def best(self, start: int, longest: int) -> int:
        """A sentence end, else a clause end, else a space, else within a word, where it keeps a sound whole.

        A good mark in the first third is passed over for a lesser one later: slivers sound worse than a mid-clause cut.
        """
        if mark := self._best_mark(start, longest):
            return mark
        stop = start + longest
        space = self._phonemes.rfind(" ", start + 1, stop)  # within a word: a number takes several
        return space if space > 0 else self._between_sounds(start, stop)

    def _first_mark(self, limit: int, longest: int, least: int = 1) -> int | None:
        stop = 0
        for mark in self._marks(_MARK, 0, longest):
            if mark.end() < least or not is_speech(self._phonemes[: mark.end()]):
                continue
            if mark.end() > limit:
                return stop or mark.end()
            stop = mark.end()
            if _FULL_STOP.fullmatch(mark[0]):
                return stop
        if len(self._phonemes) <= limit or (stop == 0 and len(self._phonemes) <= longest):
            return len(self._phonemes)
        return stop or None

    def _best_mark(self, start: int, longest: int, least: int = 1) -> int | None:
        stop = start + longest
        for low in (start + max(1 + longest // 3, least), start + max(1, least)):
            for pattern in _BEST_FIRST:
                found = list(self._marks(pattern, low, stop))
                if found and is_speech(self._phonemes[start : found[-1].end()]):
                    return found[-1].end()
        return None

    def _marks(self, pattern: re.Pattern[str], low: int, high: int) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._phonemes, low, high + 1):  # one more, to see what follows a mark
            if match.end() <= high and self._is_between_words(match.end()):
                yield match

    def _is_between_words(self, place: int) -> bool:
        if place == len(self._phonemes):
            return True
        index = bisect_left(self._words, (place, 0)) - 1
        return index < 0 or self._words[index][1] <= place

    def _between_sounds(self, start: int, stop: int) -> int:
        for place in range(stop, start + 1, -1):
            before, after = self._phonemes[place - 1], self._phonemes[place]
            if before not in _STRESS and after not in _TRAILING and not unicodedata.combining(after):
                return place
        return stop
