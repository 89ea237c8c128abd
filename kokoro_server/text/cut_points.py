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
_BRACKET = re.compile(r"\)(?=\s)|(?=\s\()")
_PHRASE = (_SENTENCE, _CLAUSE, _COMMA, _BRACKET)  # marks that a phrase ends with, best first
_SPACE = re.compile(r"(?=\s)")
_MARK = re.compile(rf"(?<![;:,.!?…])[;:,.!?…]++{_CLOSING}(?=\s|\Z)|[—…]++{_CLOSING}")
_FULL_STOP = re.compile(r"(?<!\.)[.!?]+(?<!\.\.)[\"”)]*")  # no ellipsis: a sentence may go on after one
_SPACES = re.compile(r"\s*")

# Never separated from the phoneme before: length, aspiration, palatalisation, tones, syllabic and rhotic marks.
_TRAILING = frozenset("ːʰʲ↓→↗↘ᵊᵝ̃")
_STRESS = frozenset("ˈˌ")  # never separated from the phoneme after

# A cut before a word that begins a clause is one of a long sentence alone.
LONG_SENTENCE = 80  # phonemes
MIN_SIDE = 12  # phonemes on either side of a cut that makes a stream start early: less is hardly a word

Range = tuple[int, int]
WordRanges = Callable[[], Sequence[Range]]  # of the phonemes, in order; called only where they matter
ClauseStarts = Callable[[], Sequence[int]]  # in order; called only where marks are not enough


def find_cuts(
    phonemes: str,
    words: WordRanges,
    longest: int,
    first: int | None = None,
    *,
    clauses: ClauseStarts = tuple,
    usual: int | None = None,
) -> list[int]:
    """The cuts that leave no part longer than `longest` and, if `first` is given, make the first part short.

    If `usual` is given, no part is longer than that unless a phrase is, as far as `longest` allows. A cut is within a
    phrase only where no other cut is possible, and within one of the `words` only where even that is not.
    """
    cutter = _Cutter(phonemes, words, clauses)
    cuts: list[int] = []
    start = 0
    if first is not None and (cut := cutter.first_cut(first, longest)) < len(phonemes):
        cuts.append(cut)
        start = skip_spaces(phonemes, cut)
    while len(phonemes) - start > (usual or longest):
        cut = cutter.best_cut(start, longest, usual or longest)
        if cut == len(phonemes):
            break
        cuts.append(cut)
        start = skip_spaces(phonemes, cut)
    return cuts


def find_phrase_ends(phonemes: str, words: WordRanges, clauses: ClauseStarts = tuple) -> list[int]:
    """Where a phrase ends, in order: at marks and, in a long sentence, before words that begin a clause.

    None is near the start or the end of the sentence, or near another one.
    """
    return _Cutter(phonemes, words, clauses).phrase_ends


def skip_spaces(phonemes: str, position: int) -> int:
    spaces = _SPACES.match(phonemes, position)
    return spaces.end() if spaces else position


class _Cutter:
    def __init__(self, phonemes: str, words: WordRanges, clauses: ClauseStarts) -> None:
        self._phonemes = phonemes
        self._find_words = words
        self._find_clauses = clauses

    @cached_property
    def _words(self) -> Sequence[Range]:
        return self._find_words()

    @cached_property
    def _clauses(self) -> Sequence[int]:
        """Where clauses begin that no mark is before."""
        return self._find_clauses() if len(self._phonemes) > LONG_SENTENCE else ()

    @cached_property
    def _first_sound(self) -> int:
        """Where the first sound is; the end, if there is none."""
        return next((i for i, phoneme in enumerate(self._phonemes) if has_sound(phoneme)), len(self._phonemes))

    def first_cut(self, limit: int, longest: int) -> int:
        """The end of the first sentence; if over `limit`, of its last clause within, else of its first clause."""
        mark = self._first_mark(limit, longest)
        return self.best_cut(0, longest, longest) if mark is None else mark

    @cached_property
    def phrase_ends(self) -> list[int]:
        marks = {mark.end() for pattern in _PHRASE for mark in self._marks(pattern, 0, len(self._phonemes))}
        ends, before = list[int](), 0
        for end in sorted(marks.union(self._clauses)):
            parts = self._phonemes[before:end], self._phonemes[end:]
            if all(len(part.strip()) >= MIN_SIDE and has_sound(part) for part in parts):
                ends.append(end)
                before = end
        return ends

    def best_cut(self, start: int, longest: int, usual: int) -> int:
        """A sentence end, else a clause end, else a space, else within a word, where it keeps a sound whole.

        A good mark in the first third is passed over for a lesser one later: slivers sound worse. If no phrase ends
        within `usual`, the first one that ends within `longest` does.
        """
        if mark := self._best_mark(start, usual):
            return mark
        if usual < longest:
            if later := [end for end in self.phrase_ends if start + usual < end <= start + longest]:
                return later[0]
            if len(self._phonemes) - start <= longest:
                return len(self._phonemes)
        stop = start + longest
        gaps = [gap.end() for gap in self._marks(_SPACE, start + 1, stop)]
        if gaps and has_sound(self._phonemes[start : gaps[-1]]):
            return gaps[-1]
        space = self._phonemes.rfind(" ", start + 1, stop)  # within a word: a number is said as several
        return space if space > 0 else self._between_sounds(start, stop)

    def _first_mark(self, limit: int, longest: int) -> int | None:
        stop = 0
        for mark in self._marks(_MARK, 0, longest):
            if mark.end() <= self._first_sound:
                continue
            if mark.end() > limit:
                return stop or mark.end()
            stop = mark.end()
            if _FULL_STOP.fullmatch(mark[0]):
                return stop
        if len(self._phonemes) <= limit or (stop == 0 and len(self._phonemes) <= longest):
            return len(self._phonemes)
        return stop or None

    def _best_mark(self, start: int, longest: int) -> int | None:
        stop = start + longest
        third = 1 + longest // 3
        for low in (start + third, start + min(MIN_SIDE, third)):
            for pattern in _PHRASE:
                marks = list(self._marks(pattern, low, stop))
                if marks and has_sound(self._phonemes[start : marks[-1].end()]):
                    return marks[-1].end()
            if clauses := [begin for begin in self._clauses if low <= begin <= stop]:
                return clauses[-1]
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
