"""Packs phonemized sentences into pieces for the model: each a good length, none over the limit, nothing left out."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from kokoro_server.engine.protocol import MAX_TOKENS
from kokoro_server.errors import ConfigError
from kokoro_server.text.cut_points import WordRanges, find_cuts, find_phrase_ends, skip_spaces
from kokoro_server.text.pace import ENDLESS_PHONEMES, MAX_STALLED_PHONEMES, MIN_PHONEMES, Pace, PlaybackPlan
from kokoro_server.text.pauses import Ending
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, has_sound
from kokoro_server.text.script import Run

# The purpose of a text, which decides how it is cut into pieces. "clip": nobody hears it before it is whole.
# "short_start": a clip whose first piece is short, and so made soon. "stream": it is heard while it is made, so its
# phrases are joined as the pace of the engine allows, if that is slow.
Cutting = Literal["clip", "short_start", "stream"]

FIRST_PIECE_PHONEMES = 50
LONGEST_GAP = ". "  # between two sentences of a piece
NEARLY_FULL = 2 / 3  # of the most that a piece may have: the piece is done, rather than cut the next sentence
SLIVER = 1 / 2  # of the most that a piece may have: less is filled up with phrases of the next sentence


@dataclass(frozen=True, slots=True)
class PieceSizes:
    """In phonemes."""

    first: int = FIRST_PIECE_PHONEMES  # the most in the first piece of a text, if a clause ends within them
    shortest: int = 100  # sentences are joined until a piece has this many
    longest: int = 400
    first_is_fixed: bool = False  # then no engine's speed changes how a text is cut

    def __post_init__(self) -> None:
        if not (1 <= self.shortest <= self.longest <= MAX_TOKENS and self.first >= 1):
            raise ConfigError(
                f"pieces of {self.shortest} to {self.longest} phonemes, the first of {self.first}: needs 1 <= "
                f"MIN_TOKENS_PER_CHUNK <= MAX_TOKENS_PER_CHUNK <= {MAX_TOKENS} and FIRST_CHUNK_MAX_TOKENS >= 1"
            )


@dataclass(frozen=True, eq=False)
class Piece:
    """The text of one row, `original[start:end]`. `ends`: what ends with it.

    `last` means that nothing more is to be said and no pause follows, as far as the text shows.
    """

    phonemes: str
    start: int
    end: int
    parts: tuple[tuple[PhonemizedSentence, int], ...] = ()  # of sentences, each with the offset of its phonemes
    ends: Ending = "none"
    last: bool = False
    skipped: int = 0  # characters that cannot be said: in all of the text, if this is its first piece
    run: Run | None = None  # whose text it is; None where a script has only one

    @cached_property
    def words(self) -> tuple[PhonemizedWord, ...]:
        return tuple(word.shifted(offset) for part, offset in self.parts for word in part.words)


class Packer:
    """Joins sentences until a piece has `shortest` phonemes and splits those over `longest`.

    The model speaks best from about a hundred phonemes on; beyond four hundred it begins to rush. A piece comes out as
    soon as it is known, so that its synthesis can start while later text is still with G2P. For the same reason the
    very first piece, if `first` is given, is short: it ends with its sentence, or, if that has more than `first`
    phonemes, with its last clause that ends within them, else with the first clause that ends.
    A piece ends with its paragraph. A sentence is cut within a phrase only if that is over `longest`. `usual` is the
    most that other pieces have.
    """

    def __init__(self, shortest: int, longest: int, first: int | None = None, usual: int | None = None) -> None:
        self._shortest = shortest
        self._longest = longest
        self._first = first
        self._usual = usual or longest
        self._open: Piece | None = None

    def add(self, sentence: PhonemizedSentence) -> list[Piece]:
        """The pieces that `sentence`, which must have a sound in it, completes."""
        done: list[Piece] = []
        for piece in self._split(sentence):
            joined = _join(self._open, piece) if self._open else piece
            if self._open and len(joined.phonemes) > self._usual:
                done += self._close()
                joined = piece
            self._open = joined
            if self._first is not None or len(joined.phonemes) >= self._shortest or joined.ends == "paragraph":
                done += self._close()
        return done

    def finish(self) -> list[Piece]:
        """The rest, when the text has ended or a pause comes."""
        return self._close()

    def _close(self) -> list[Piece]:
        """The piece that was being filled."""
        if self._open is None:
            return []
        piece, self._open, self._first = self._open, None, None
        return [piece]

    def add_pause(self, seconds: float) -> None:
        """A pause follows what is finished."""

    def _split(self, sentence: PhonemizedSentence) -> list[Piece]:
        words, clauses = _word_ranges(sentence), sentence.clause_starts
        cuts = find_cuts(sentence.phonemes, words, self._longest, self._first, clauses=clauses, usual=self._usual)
        parts = [part for part in sentence.split_at(cuts) if has_sound(part.phonemes)]
        return [_piece(part, sentence, whole=part is parts[-1]) for part in parts]


class ClipPacker(Packer):
    """For a whole clip: a short end goes with the piece before it, so a piece is held back until the next is known."""

    def __init__(self, shortest: int, longest: int) -> None:
        super().__init__(shortest, longest)
        self._held: list[Piece] = []  # one at most

    def add(self, sentence: PhonemizedSentence) -> list[Piece]:
        pieces = self._held + super().add(sentence)
        self._held = pieces[-1:]
        return pieces[:-1]

    def finish(self) -> list[Piece]:
        pieces, self._held = self._held + self._close(), []
        if len(pieces) == 2 and len(pieces[1].phonemes) < self._shortest and pieces[0].ends != "paragraph":
            joined = _join(*pieces)
            if len(joined.phonemes) <= self._longest:
                return [joined]
        return pieces


class PacedPacker(Packer):
    """For a stream from a slow engine: a piece is no longer than can be synthesized while those before it play.

    A piece ends with a phrase, or is late: no plan is worth a cut that is heard. Planned pieces grow, each longer than
    the one before, until `Packer`'s rules are enough. A phrase is a first piece only if the rest of its sentence can
    follow without a wait. A short first sentence is joined with the next if it alone would leave too little time to
    make the next piece.

    `phonemes` is the expected length of the text. If no plan keeps such a text from stalling, only its first piece is
    planned, and sentences stay whole if they are not very long: a wait between two sentences disturbs least.
    """

    def __init__(self, sizes: PieceSizes, pace: Pace, phonemes: int = ENDLESS_PHONEMES) -> None:
        super().__init__(sizes.shortest, sizes.longest)
        self._sizes = sizes
        self._plan = PlaybackPlan(pace)
        self._plan_start(phonemes)

    def _plan_start(self, phonemes: int) -> None:
        """Plans the start of a text of this many phonemes."""
        sizes, pace = self._sizes, self._plan.pace
        start = pace.start(phonemes)
        self._left = phonemes  # expected, and in no finished piece yet
        self._keeps_up = start.keeps_up  # whether a plan exists that never stalls
        if start.keeps_up:
            self._usual = sizes.longest
            self._shortest = min(max(sizes.shortest, pace.sufficient_phonemes), sizes.longest)
        else:
            self._shortest = sizes.shortest
            self._usual = min(max(sizes.shortest, MAX_STALLED_PHONEMES), sizes.longest)
        limit = min(start.max_phonemes, self._usual)
        self._first_limit = limit if start.late else min(sizes.first, limit)

    def add(self, sentence: PhonemizedSentence) -> list[Piece]:
        done: list[Piece] = []
        rest: PhonemizedSentence | None = sentence  # the part that is in no piece yet
        known = len(sentence.phonemes) + (len(self._open.phonemes) if self._open else 0)
        if not self._plan.started and known > self._left:
            self._plan_start(known)
        ends = self._phrase_ends(sentence)
        while rest is not None and self._is_planned():
            cut = self._next_cut(ends)
            if cut == 0:
                done += self._close()
                continue
            head, after = _split_in_two(rest, cut)
            piece = _piece(head, sentence, whole=after is None)
            joined = _join(self._open, piece) if self._open else piece
            if len(joined.phonemes) > self._longest:
                break
            begin = skip_spaces(rest.phonemes, cut)
            self._open, rest, ends = joined, after, [end - begin for end in ends if end > cut]
            if rest is not None or self._is_enough(len(joined.phonemes)):
                done += self._close()
        return done + (super().add(rest) if rest is not None else [])

    def _phrase_ends(self, sentence: PhonemizedSentence) -> list[int]:
        """With the end of the sentence. Not looked for where it is in no planned piece."""
        if not self._is_planned():
            return []
        return [
            *find_phrase_ends(sentence.phonemes, _word_ranges(sentence), sentence.clause_starts),
            len(sentence.phonemes),
        ]

    def _close(self) -> list[Piece]:
        pieces = super()._close()
        for piece in pieces:
            self._plan.add(len(piece.phonemes))
            self._left -= len(piece.phonemes)
        return pieces

    def add_pause(self, seconds: float) -> None:
        self._plan.add_pause(seconds)

    def _is_planned(self) -> bool:
        """Whether the plan, not `Packer`, decides how long the next piece is."""
        return not self._plan.started or (self._keeps_up and MIN_PHONEMES < self._max_phonemes() < self._longest)

    def _max_phonemes(self) -> int:
        """The longest next piece that is ready in time."""
        if not self._plan.started:
            return self._first_limit
        return min(self._plan.max_phonemes(), self._longest)

    def _min_phonemes(self, known: int) -> int:
        """The shortest next piece that leaves time to make the rest. At least `known` phonemes are to be packed."""
        if not self._keeps_up:
            return int(self._max_phonemes() * SLIVER)
        return self._plan.min_phonemes(self._max_phonemes(), max(self._left, known))

    def _is_enough(self, phonemes: int) -> bool:
        """Whether a piece of this many phonemes, which ends with a sentence, is done."""
        if phonemes < self._min_phonemes(phonemes):
            return False
        if not self._plan.started or (self._open and self._open.ends == "paragraph"):
            return True
        return phonemes >= min(self._shortest, self._max_phonemes() * NEARLY_FULL)

    def _next_cut(self, ends: list[int]) -> int:
        """Which of the phrase `ends` of a sentence the next piece has; 0 if the open piece is done without it."""
        limit, length = self._max_phonemes(), ends[-1]
        used = len(self._open.phonemes) + len(LONGEST_GAP) if self._open else 0  # phonemes in the open piece
        least = self._min_phonemes(used + length)
        is_done = self._open is not None and len(self._open.phonemes) >= least
        if is_done and used + length > limit and used - len(LONGEST_GAP) >= limit * SLIVER:
            return 0

        def is_good(end: int) -> bool:
            return end == length or (used + end >= least and self._can_follow(used, end, ends))

        late = bisect_right(ends, limit - used)
        for end in reversed(ends[:late]):
            if is_good(end):
                return end
        return 0 if is_done else next(end for end in [*ends[late:], length] if is_good(end))

    def _can_follow(self, used: int, cut: int, ends: list[int]) -> bool:
        """Whether the phrases of the sentence after `cut` can be in time, where any plan keeps up."""
        if not self._keeps_up:
            return True
        plan, start = replace(self._plan), cut
        plan.add(used + cut)
        while start < ends[-1] and (limit := plan.max_phonemes()) < self._longest:
            end = ends[bisect_right(ends, start + limit) - 1]
            if end <= start:
                return False
            plan.add(end - start)
            start = end
        return True


def _split_in_two(sentence: PhonemizedSentence, cut: int) -> tuple[PhonemizedSentence, PhonemizedSentence | None]:
    """The parts before and after `cut`, without those that have no sound."""
    cuts = [cut] if cut < len(sentence.phonemes) else []
    head, *tail = (part for part in sentence.split_at(cuts) if has_sound(part.phonemes))
    if not tail:
        return head, None
    span = replace(tail[0].span, continues=sentence.span.continues, ends_paragraph=sentence.span.ends_paragraph)
    return head, replace(tail[0], span=span)


def _word_ranges(sentence: PhonemizedSentence) -> WordRanges:
    return lambda: [
        (word.phoneme_start, word.phoneme_end) for word in sentence.words if not (word.phrase or word.breakable)
    ]


def _piece(part: PhonemizedSentence, sentence: PhonemizedSentence, *, whole: bool) -> Piece:
    """A part of a sentence, or the `whole` of what is left of it."""
    span, whole = sentence.span, whole and not sentence.span.continues
    ends = "paragraph" if whole and span.ends_paragraph else _ending(part.phonemes, whole)
    return Piece(part.phonemes, part.span.start, part.span.end, ((part, 0),), ends)


def _ending(phonemes: str, whole: bool) -> Ending:
    """What ends here. A `whole` sentence needs no mark: it may be a heading."""
    mark = _last_mark(phonemes)
    if mark == ",":
        return "comma"
    if mark in (";", ":", "—") or (mark == "…" and not whole):
        return "semicolon"
    return "sentence" if whole or mark in (".", "!", "?") else "none"


def _last_mark(phonemes: str) -> str:
    return phonemes.rstrip('"”) ')[-1:]


def _join(one: Piece, other: Piece) -> Piece:
    # After a heading or an "U.S." there is no full stop in the phonemes, and the model would read on.
    unmarked = one.ends in ("sentence", "paragraph") and _last_mark(one.phonemes) not in (".", "!", "?", "…")
    gap = ". " if unmarked else " "
    by = len(one.phonemes) + len(gap)
    parts = (*one.parts, *((part, offset + by) for part, offset in other.parts))
    return Piece(f"{one.phonemes}{gap}{other.phonemes}", one.start, other.end, parts, other.ends)
