"""Spoken sentences into pieces for the model: each a good length, none over the limit, nothing left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from kokoro_server.engine.protocol import MAX_TOKENS
from kokoro_server.errors import ConfigError
from kokoro_server.text import cuts
from kokoro_server.text.pace import BEARABLE, ENDLESS, FEWEST, LATER_START, Pace, Plan
from kokoro_server.text.spoken import Spoken, Word, is_speech

__all__ = ["Ending", "PacedPacker", "Packer", "Piece", "PieceSizes", "Spoken", "Word"]

Ending = Literal["sentence", "clause", "none"]

FIRST = 50  # phonemes
LONGEST_GAP = ". "  # between two sentences of a piece
NEARLY = 2 / 3  # of the most that a piece may have: enough, rather than cut the next sentence
SLIVER = 1 / 2  # of it: less is filled up with a part of the next sentence
TAIL = 20  # phonemes: a last word or two are better said with what comes before them


@dataclass(frozen=True, slots=True)
class PieceSizes:
    """In phonemes."""

    first: int = FIRST  # the most in the first piece of a text, if a clause ends within them
    shortest: int = 100  # sentences are joined until there are so many
    longest: int = 400
    first_is_given: bool = False  # then no engine's speed changes how a text is cut

    def __post_init__(self) -> None:
        if not (1 <= self.shortest <= self.longest <= MAX_TOKENS and self.first >= 1):
            raise ConfigError(
                f"pieces of {self.shortest} to {self.longest} phonemes, the first of {self.first}: needs 1 <= "
                f"MIN_TOKENS_PER_CHUNK <= MAX_TOKENS_PER_CHUNK <= {MAX_TOKENS} and FIRST_CHUNK_MAX_TOKENS >= 1"
            )


@dataclass(frozen=True, eq=False)
class Piece:
    """What one row of a batch says. `start` and `end` tell from where in the original text, `ends` what it closes.

    `last` means that nothing more is to be said and no pause follows, as far as the text shows.
    """

    phonemes: str
    start: int
    end: int
    parts: tuple[tuple[Spoken, int], ...] = ()  # of sentences, each with the place of its phonemes
    ends: Ending = "none"
    last: bool = False

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return tuple(word.moved(place) for part, place in self.parts for word in part.words)


class Packer:
    """Joins sentences until a piece has `shortest` phonemes and splits those over `longest`.

    The model speaks best from about a hundred phonemes on; beyond four hundred it begins to rush. A piece comes out as
    soon as it is known, so that its synthesis can start while later text is still with G2P. For the same reason the
    very first piece, if `first` is given, is short: it ends with its sentence, or, if that has more than `first`
    phonemes, with the last clause of it that ends within them, else with the first clause that ends.
    """

    def __init__(self, shortest: int, longest: int, first: int | None = None) -> None:
        self._shortest = shortest
        self._longest = longest
        self._first = first
        self._open: Piece | None = None

    def add(self, sentence: Spoken) -> list[Piece]:
        """The pieces that `sentence`, which must have a sound in it, completes."""
        done: list[Piece] = []
        for piece in self._split(sentence):
            joined = _joined(self._open, piece) if self._open else piece
            if len(joined.phonemes) > self._longest:
                done += self.finish()
                joined = piece
            self._open = joined
            if self._first is not None or len(joined.phonemes) >= self._shortest:
                done += self.finish()
        return done

    def finish(self) -> list[Piece]:
        """What is left when the text has ended or a pause comes."""
        if self._open is None:
            return []
        piece, self._open, self._first = self._open, None, None
        return [piece]

    def rest(self, seconds: float) -> None:
        """A pause follows what is finished."""

    def _split(self, sentence: Spoken) -> list[Piece]:
        places = cuts.places(sentence.phonemes, _ranges(sentence), self._longest, self._first)
        parts = [part for part in sentence.parts(places) if is_speech(part.phonemes)]
        return [_piece(part, whole=part is parts[-1] and not sentence.span.goes_on) for part in parts]


class PacedPacker(Packer):
    """For a stream: pieces are no longer than can be made while those before them are heard.

    They grow from piece to piece until they need no planning any more. None is cut within a word. A short first
    sentence is joined with what follows, if on its own it would leave too little time to make the next piece. Where no
    plan keeps a text of about so many `phonemes` from stalling, only its first piece is planned, and sentences stay
    whole if they are not very long: a wait after one is the least evil.
    """

    def __init__(self, sizes: PieceSizes, pace: Pace, phonemes: int = ENDLESS) -> None:
        super().__init__(sizes.shortest, sizes.longest)
        self._sizes = sizes
        self._plan = Plan(pace)
        self._expect(phonemes)

    def _expect(self, phonemes: int) -> None:
        """Plan the start of a text of so many."""
        sizes, pace = self._sizes, self._plan.pace
        start = pace.start(phonemes)
        self._left = phonemes
        self._keeps_up = start.keeps_up
        if start.keeps_up:
            self._shortest, self._longest = min(max(sizes.shortest, pace.enough), sizes.longest), sizes.longest
        else:
            self._shortest, self._longest = sizes.shortest, min(max(sizes.shortest, BEARABLE), sizes.longest)
        most = min(start.most, self._longest)
        # A clause should end within the one, a word must in the other.
        self._first_sizes = (most if start.late else min(sizes.first, most), most)

    def add(self, sentence: Spoken) -> list[Piece]:
        done: list[Piece] = []
        left: Spoken | None = sentence
        known = len(sentence.phonemes) + (len(self._open.phonemes) if self._open else 0)
        if not self._plan.begun and known > self._left:
            self._expect(known)
        while left is not None and self._is_planned():
            piece, rest = self._taken(left)
            if len(piece.phonemes) > self._longest:  # no word ends early enough
                break
            self._open, left = piece, rest
            if left is not None or self._is_enough(len(piece.phonemes)):
                done += self.finish()
        return done + (super().add(left) if left is not None else [])

    def finish(self) -> list[Piece]:
        pieces = super().finish()
        for piece in pieces:
            self._plan.add(len(piece.phonemes))
            self._left -= len(piece.phonemes)
        return pieces

    def rest(self, seconds: float) -> None:
        self._plan.rest(seconds)

    def _is_planned(self) -> bool:
        return not self._plan.begun or (self._keeps_up and FEWEST < self._most() < self._longest)

    def _most(self) -> int:
        if not self._plan.begun:
            return self._first_sizes[1]
        return min(self._plan.most(), self._longest)

    def _least(self, known: int) -> int:
        """`known` are the phonemes that are there to be packed; there may be more than was thought."""
        return self._plan.least(self._most(), max(self._left, known))

    def _is_enough(self, phonemes: int) -> bool:
        if phonemes < self._least(phonemes):
            return False
        return not self._plan.begun or phonemes >= min(self._shortest, self._most() * NEARLY)

    def _may_be_whole(self, phonemes: int) -> bool:
        """Whether a first piece that is a little too long starts soon enough all the same."""
        soon = self._plan.pace.cost(phonemes) <= LATER_START
        return soon and not self._plan.begun and phonemes <= self._longest

    def _taken(self, sentence: Spoken) -> tuple[Piece, Spoken | None]:
        """The open piece with as much of `sentence` as may be in it, and what is left of the sentence."""
        most, phonemes = self._most(), sentence.phonemes
        held = len(self._open.phonemes) + len(LONGEST_GAP) if self._open else 0
        least = self._least(held + len(phonemes))
        if self._open and held + len(phonemes) > most and len(self._open.phonemes) >= max(most * SLIVER, least):
            return self._open, sentence
        words = _ranges(sentence)
        if self._open or self._plan.begun:
            stop = cuts.within(phonemes, words, max(most - held, 1), least - held)
        else:
            stop = cuts.first(phonemes, words, *self._first_sizes, least)
        if 0 < len(phonemes) - stop < TAIL and _ending(phonemes[:stop], whole=False) == "none":
            limits = (len(phonemes) - TAIL, len(phonemes) - TAIL // 2)
            earlier = (cuts.within(phonemes, words, limit, least - held) for limit in limits)
            better = (place for place in earlier if max(least - held, 1) <= place < stop)
            stop = len(phonemes) if self._may_be_whole(held + len(phonemes)) else next(better, stop)
        head, left = _halves(sentence, stop)
        piece = _piece(head, whole=left is None and not sentence.span.goes_on)
        return _joined(self._open, piece) if self._open else piece, left


def _halves(sentence: Spoken, place: int) -> tuple[Spoken, Spoken | None]:
    """What is before `place` and what is after it; only what has a sound."""
    places = [place] if place < len(sentence.phonemes) else []
    head, *tail = (part for part in sentence.parts(places) if is_speech(part.phonemes))
    if not tail:
        return head, None
    return head, replace(tail[0], span=replace(tail[0].span, goes_on=sentence.span.goes_on))


def _ranges(sentence: Spoken) -> cuts.Words:
    return lambda: [(word.first, word.last) for word in sentence.words if not word.phrase]


def _piece(part: Spoken, *, whole: bool) -> Piece:
    return Piece(part.phonemes, part.span.start, part.span.end, ((part, 0),), _ending(part.phonemes, whole))


def _ending(phonemes: str, whole: bool) -> Ending:
    """What closes with `phonemes`. If they are `whole` it is a sentence, though it may be a heading without a mark."""
    mark = _last_mark(phonemes)
    if mark in (";", ":", ",", "—") or (mark == "…" and not whole):
        return "clause"
    return "sentence" if whole or mark in (".", "!", "?") else "none"


def _last_mark(phonemes: str) -> str:
    return phonemes.rstrip('"”) ')[-1:]


def _joined(one: Piece, other: Piece) -> Piece:
    # After a heading or an "U.S." there is no full stop in the phonemes, and the model would read on.
    unmarked = one.ends == "sentence" and _last_mark(one.phonemes) not in (".", "!", "?", "…")
    gap = ". " if unmarked else " "
    by = len(one.phonemes) + len(gap)
    parts = (*one.parts, *((part, place + by) for part, place in other.parts))
    return Piece(f"{one.phonemes}{gap}{other.phonemes}", one.start, other.end, parts, other.ends)
