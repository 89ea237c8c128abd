"""Spoken sentences into pieces for the model: each a good length, none over the limit, nothing left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kokoro_server.engine.protocol import MAX_TOKENS
from kokoro_server.errors import ConfigError
from kokoro_server.text import cuts
from kokoro_server.text.spoken import Spoken, Word, is_speech

__all__ = ["Ending", "Packer", "Piece", "PieceSizes", "Spoken", "Word"]

Ending = Literal["sentence", "clause", "none"]


@dataclass(frozen=True, slots=True)
class PieceSizes:
    """In phonemes."""

    first: int = 50  # the most in the first piece of a text, if a clause ends within them
    shortest: int = 100  # sentences are joined until there are so many
    longest: int = 400

    def __post_init__(self) -> None:
        if not (1 <= self.shortest <= self.longest <= MAX_TOKENS and self.first >= 1):
            raise ConfigError(
                f"pieces of {self.shortest} to {self.longest} phonemes, the first of {self.first}: needs 1 <= "
                f"MIN_TOKENS_PER_CHUNK <= MAX_TOKENS_PER_CHUNK <= {MAX_TOKENS} and FIRST_CHUNK_MAX_TOKENS >= 1"
            )


@dataclass(frozen=True, slots=True)
class Piece:
    """What one row of a batch says. `start` and `end` tell from where in the original text, `ends` what it closes.

    `last` means that nothing more is to be said and no pause follows, as far as the text shows.
    """

    phonemes: str
    start: int
    end: int
    words: tuple[Word, ...] = ()
    ends: Ending = "none"
    last: bool = False


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

    def _split(self, sentence: Spoken) -> list[Piece]:
        ranges = [(word.first, word.last) for word in sentence.words if not word.phrase]
        places = cuts.places(sentence.phonemes, ranges, self._longest, self._first)
        parts = [part for part in sentence.parts(places) if is_speech(part.phonemes)]
        return [_piece(part, whole=part is parts[-1] and not sentence.span.goes_on) for part in parts]


def _piece(part: Spoken, *, whole: bool) -> Piece:
    return Piece(part.phonemes, part.span.start, part.span.end, part.words, _ending(part.phonemes, whole))


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
    words = (word.moved(len(one.phonemes) + len(gap)) for word in other.words)
    return Piece(f"{one.phonemes}{gap}{other.phonemes}", one.start, other.end, (*one.words, *words), other.ends)
