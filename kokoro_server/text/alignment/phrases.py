"""Sentences of the languages other than English: sent to G2P clause by clause, and aligned within each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kokoro_server import languages
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language
from kokoro_server.text.alignment.words import as_phrase, token_words
from kokoro_server.text.markup import Part, Pronunciation
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord
from kokoro_server.text.splitter import TextSpan, clauses
from kokoro_server.text.traced import Traced

_UNSPACED = (languages.JA, languages.ZH)
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
        phonemes, places = "", list[tuple[Part, G2PResult, int]]()
        space = False
        for part, result in self._parts_with_phonemes(results):
            text, sound = part.word if isinstance(part, Pronunciation) else part, result.phonemes
            space = space or not self._spaced or text.text[:1].isspace()
            if space and phonemes and sound and sound[0] not in _NO_SPACE_BEFORE:
                phonemes += " "
            places.append((part, result, len(phonemes)))
            phonemes += sound
            space = text.text[-1:].isspace()
        return PhonemizedSentence(self._span, phonemes, lambda: tuple(_words(places)))

    def _parts_with_phonemes(self, results: Sequence[G2PResult]) -> Iterator[tuple[Part, G2PResult]]:
        following = iter(results)
        for part in self._parts:
            if isinstance(part, Pronunciation):
                yield part, G2PResult(part.phonemes.strip())
            elif part.text.strip():
                result = next(following)
                yield part, replace(result, phonemes=result.phonemes.strip())
            else:
                yield part, G2PResult("")


def _words(places: Sequence[tuple[Part, G2PResult, int]]) -> Iterator[PhonemizedWord]:
    """The words of each part, or all of it as a phrase where they are not known."""
    for part, result, place in places:
        if isinstance(part, Pronunciation):
            words = as_phrase(part.word, result.phonemes, is_word=True)
        else:
            words = token_words(part, result) or as_phrase(part, result.phonemes)
        yield from (word.shifted(place) for word in words)


def _clauses(part: Part) -> Iterator[Part]:
    if isinstance(part, Pronunciation):
        yield part
    else:
        yield from (part.between(start, end) for start, end in clauses(part.text))
