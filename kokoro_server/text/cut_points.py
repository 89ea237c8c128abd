"""Where a string of phonemes may be cut in two."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from kokoro_server.text.phonemized import has_sound

# A cut comes after a punctuation mark and the quotes and brackets that close with it. Within an address no space
# follows a mark, so it is not a cut.
_CLOSING = r"[\"”)]*+"
_SENTENCE = re.compile(rf"(?<![.!?…])[.!?…]++{_CLOSING}(?=\s|\Z)")
_CLAUSE = re.compile(rf"[;:]{_CLOSING}(?=\s)|[—…]+{_CLOSING}")
_COMMA = re.compile(rf",{_CLOSING}(?=\s)")
_SPACE = re.compile(r"(?=\s)")
_BEST_FIRST = (_SENTENCE, _CLAUSE, _COMMA, _SPACE)
_MARK = re.compile(rf"(?<![;:,.!?…])[;:,.!?…]++{_CLOSING}(?=\s|\Z)|[—…]++{_CLOSING}")
_FULL_STOP = re.compile(r"(?<!\.)[.!?]+(?<!\.\.)[\"”)]*")  # no ellipsis: a sentence may go on after one
_SPACES = re.compile(r"\s*")

# Never separated from the phoneme before: length, aspiration, palatalisation, tones, syllabic and rhotic marks.
_TRAILING = frozenset("ːʰʲ↓→↗↘ᵊᵝ̃")
_STRESS = frozenset("ˈˌ")  # never separated from the phoneme after

Range = tuple[int, int]
WordRanges = Callable[[], Sequence[Range]]  # of the phonemes, in order; called only where they matter


def find_cuts(phonemes: str, words: WordRanges, longest: int, first: int | None = None) -> list[int]:
    """The cuts that leave no part longer than `longest` and, if `first` is given, make the first part short.

    A cut is within one of the `words` only where no other cut is possible.
    """
    cutter = _Cutter(phonemes, words)
    cuts: list[int] = []
    start = 0
    if first is not None and (cut := cutter.first_cut(first, longest)) < len(phonemes):
        cuts.append(cut)
        start = _skip_spaces(phonemes, cut)
    while len(phonemes) - start > longest:
        cut = cutter.best_cut(start, longest)
        cuts.append(cut)
        start = _skip_spaces(phonemes, cut)
    return cuts


def find_first_cut(phonemes: str, words: WordRanges, soft_limit: int, hard_limit: int, min_length: int = 1) -> int:
    """The end of the first part: of the first sentence; over `soft_limit`, of a clause; over `hard_limit`, of a word.

    For `min_length` see `find_cut`.
    """
    return _Cutter(phonemes, words).first_cut_between_words(soft_limit, hard_limit, min_length)


def find_cut(phonemes: str, words: WordRanges, limit: int, min_length: int = 1) -> int:
    """The best cut from `min_length` to `limit`; else the last one before that range, else the first one after it.

    Never within a word.
    """
    return _Cutter(phonemes, words).cut_between_words(limit, min_length)


def _skip_spaces(phonemes: str, position: int) -> int:
    spaces = _SPACES.match(phonemes, position)
    return spaces.end() if spaces else position


class _Cutter:
    def __init__(self, phonemes: str, words: WordRanges) -> None:
        self._phonemes = phonemes
        self._find_words = words

    @cached_property
    def _words(self) -> Sequence[Range]:
        return self._find_words()

    @cached_property
    def _first_sound(self) -> int:
        """Where the first sound is; the end, if there is none."""
        return next((i for i, phoneme in enumerate(self._phonemes) if has_sound(phoneme)), len(self._phonemes))

    def first_cut(self, limit: int, longest: int) -> int:
        """The end of the first sentence; if over `limit`, of its last clause within, else of its first clause."""
        mark = self._first_mark(limit, longest)
        return self.best_cut(0, longest) if mark is None else mark

    def first_cut_between_words(self, soft_limit: int, hard_limit: int, min_length: int) -> int:
        mark = self._first_mark(soft_limit, hard_limit, min_length)
        return self.cut_between_words(hard_limit, min_length) if mark is None else mark

    def cut_between_words(self, limit: int, min_length: int) -> int:
        if len(self._phonemes) <= limit:
            return len(self._phonemes)
        if mark := self._best_mark(0, limit, min_length):
            return mark
        low = self._first_sound + 1
        if earlier := list(self._marks(_SPACE, low, limit)):
            return earlier[-1].end()
        later = self._marks(_SPACE, max(low, limit + 1), len(self._phonemes))
        return next((gap.end() for gap in later), len(self._phonemes))

    def best_cut(self, start: int, longest: int) -> int:
        """A sentence end, else a clause end, else a space, else within a word, where it keeps a sound whole.

        A good mark in the first third is passed over for a lesser one later: slivers sound worse than a mid-clause cut.
        """
        if mark := self._best_mark(start, longest):
            return mark
        stop = start + longest
        space = self._phonemes.rfind(" ", start + 1, stop)  # within a word: a number is said as several
        return space if space > 0 else self._between_sounds(start, stop)

    def _first_mark(self, limit: int, longest: int, min_length: int = 1) -> int | None:
        stop = 0
        for mark in self._marks(_MARK, 0, longest):
            if mark.end() < min_length or mark.end() <= self._first_sound:
                continue
            if mark.end() > limit:
                return stop or mark.end()
            stop = mark.end()
            if _FULL_STOP.fullmatch(mark[0]):
                return stop
        if len(self._phonemes) <= limit or (stop == 0 and len(self._phonemes) <= longest):
            return len(self._phonemes)
        return stop or None

    def _best_mark(self, start: int, longest: int, min_length: int = 1) -> int | None:
        stop = start + longest
        for low in (start + max(1 + longest // 3, min_length), start + max(1, min_length)):
            for pattern in _BEST_FIRST:
                marks = list(self._marks(pattern, low, stop))
                if marks and has_sound(self._phonemes[start : marks[-1].end()]):
                    return marks[-1].end()
        return None

    def _marks(self, pattern: re.Pattern[str], low: int, high: int) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._phonemes, low, high + 1):  # one more, to see what follows a mark
            if match.end() <= high and self._is_between_words(match.end()):
                yield match

    def _is_between_words(self, position: int) -> bool:
        if position == len(self._phonemes):
            return True
        index = bisect_left(self._words, (position, 0)) - 1
        return index < 0 or self._words[index][1] <= position

    def _between_sounds(self, start: int, stop: int) -> int:
        for position in range(stop, start + 1, -1):
            before, after = self._phonemes[position - 1], self._phonemes[position]
            if before not in _STRESS and after not in _TRAILING and not unicodedata.combining(after):
                return position
        return stop
