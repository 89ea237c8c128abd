"""Sentences of the languages whose G2P does not tell words apart: sent to it clause by clause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.phonemes import Phonemes
from kokoro_server.text.markup import SPOKEN, Given, Part
from kokoro_server.text.splitter import Span, clauses
from kokoro_server.text.spoken import Spoken, Word, found, is_speech
from kokoro_server.text.traced import Traced

_UNSPACED = (languages.JA, languages.ZH)
_MARKS = ' ;:,.!?—…"()“”'
_LEANING = frozenset(",.;:!?…)”")  # written without a space before


class PhrasedSentence:
    """The phonemes that are given and those of the clauses between them, joined again."""

    def __init__(self, span: Span, parts: Sequence[Part], language: Language) -> None:
        self._span = span
        self._spaced = language not in _UNSPACED
        self._parts = [part for whole in parts for part in _clauses(whole)]
        self.texts = tuple(part.text for part in self._parts if isinstance(part, Traced) and part.text.strip())

    def spoken(self, answers: Sequence[Phonemes]) -> Spoken:
        """The sentence, from the phonemes of its texts, in order."""
        phonemes, words = "", list[Word]()
        space = False
        for part, sound in self._sounds(answers):
            text = part.word if isinstance(part, Given) else part
            space = space or not self._spaced or text.text[:1].isspace()
            if space and phonemes and sound and sound[0] not in _LEANING:
                phonemes += " "
            words += (word.moved(len(phonemes)) for word in phrase(text, sound, given=isinstance(part, Given)))
            phonemes += sound
            space = text.text[-1:].isspace()
        return Spoken(self._span, phonemes, found(tuple(words)))

    def _sounds(self, answers: Sequence[Phonemes]) -> Iterator[tuple[Part, str]]:
        following = iter(answers)
        for part in self._parts:
            if isinstance(part, Given):
                yield part, part.phonemes.strip()
            else:
                yield part, next(following).phonemes.strip() if part.text.strip() else ""


def phrase(text: Traced, phonemes: str, *, given: bool = False) -> tuple[Word, ...]:
    """All of `text` as one phrase, or word if `given`, without the marks around it; none if nothing is heard of it."""
    if not is_speech(phonemes):
        return ()
    solid = [place for place, character in enumerate(text.text) if SPOKEN.match(character)] or [0, len(text.text) - 1]
    first = len(phonemes) - len(phonemes.lstrip(_MARKS))
    last = len(phonemes.rstrip(_MARKS))
    return (Word(*text.origin(solid[0], solid[-1] + 1), first, last, phrase=not given),)


def _clauses(part: Part) -> Iterator[Part]:
    if isinstance(part, Given):
        yield part
    else:
        yield from (part.between(start, end) for start, end in clauses(part.text))
