"""Sentences of the languages whose G2P returns no tokens: sent to it clause by clause, and aligned by phrase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kokoro_server import languages
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language
from kokoro_server.text.markup import SPEAKABLE, Part, Pronunciation
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, has_sound, known_words
from kokoro_server.text.splitter import TextSpan, clauses
from kokoro_server.text.traced import Traced

_UNSPACED = (languages.JA, languages.ZH)
_MARKS = ' ;:,.!?—…"()“”'
_NO_SPACE_BEFORE = frozenset(",.;:!?…)”")  # marks that are written without a space before them


class PhraseAlignedSentence:
    """A sentence made of pronunciations and the clauses between them, whose phonemes are joined."""

    def __init__(self, span: TextSpan, parts: Sequence[Part], language: Language) -> None:
        self._span = span
        self._spaced = language not in _UNSPACED
        self._parts = [part for whole in parts for part in _clauses(whole)]
        self.texts = tuple(part.text for part in self._parts if isinstance(part, Traced) and part.text.strip())

    def with_phonemes(self, results: Sequence[G2PResult]) -> PhonemizedSentence:
        """The sentence with the phonemes of its texts, which come in order."""
        phonemes, words = "", list[PhonemizedWord]()
        space = False
        for part, sound in self._parts_with_phonemes(results):
            text = part.word if isinstance(part, Pronunciation) else part
            space = space or not self._spaced or text.text[:1].isspace()
            if space and phonemes and sound and sound[0] not in _NO_SPACE_BEFORE:
                phonemes += " "
            is_word = isinstance(part, Pronunciation)
            words += (word.shifted(len(phonemes)) for word in as_phrase(text, sound, is_word=is_word))
            phonemes += sound
            space = text.text[-1:].isspace()
        return PhonemizedSentence(self._span, phonemes, known_words(tuple(words)))

    def _parts_with_phonemes(self, results: Sequence[G2PResult]) -> Iterator[tuple[Part, str]]:
        following = iter(results)
        for part in self._parts:
            if isinstance(part, Pronunciation):
                yield part, part.phonemes.strip()
            else:
                yield part, next(following).phonemes.strip() if part.text.strip() else ""


def as_phrase(text: Traced, phonemes: str, *, is_word: bool = False) -> tuple[PhonemizedWord, ...]:
    """All of `text` as one phrase, or one word if `is_word`, without the marks around it; none if it has no sound."""
    if not has_sound(phonemes):
        return ()
    spoken = [i for i, character in enumerate(text.text) if SPEAKABLE.match(character)] or [0, len(text.text) - 1]
    phoneme_start = len(phonemes) - len(phonemes.lstrip(_MARKS))
    phoneme_end = len(phonemes.rstrip(_MARKS))
    return (PhonemizedWord(*text.origin(spoken[0], spoken[-1] + 1), phoneme_start, phoneme_end, phrase=not is_word),)


def _clauses(part: Part) -> Iterator[Part]:
    if isinstance(part, Pronunciation):
        yield part
    else:
        yield from (part.between(start, end) for start, end in clauses(part.text))
