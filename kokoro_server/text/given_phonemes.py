"""Phonemes that a request gives instead of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import InvalidInput
from kokoro_server.text import markup
from kokoro_server.text.pauses import Pause, split_pauses
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, has_sound
from kokoro_server.text.splitter import TextSpan, split_long

# The look-behind keeps a long run of marks from being tried at each of its marks.
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"”)]*+(?=\s|\Z)")
_MAX_PHONEMES = 2_000  # a longer one is broken: finding a cut takes a look at the whole sentence
_WORD = re.compile(r"[^ ;:,.!?—…\"()“”]+")


def split_phonemes(phonemes: str, vocabulary: ModelVocabulary) -> Iterator[PhonemizedSentence | Pause]:
    """The sentences of phonemes, and the pauses between them. Raises InvalidInput for what the model does not know."""
    passages = list(split_pauses(phonemes, field="phonemes"))
    spoken = "".join(passage.text for passage in passages if isinstance(passage, TextSpan))
    if vocabulary.unknown(spoken):
        raise InvalidInput(markup.describe_unknown(spoken, vocabulary), field="phonemes")
    for passage in passages:
        if isinstance(passage, Pause):
            yield passage
        else:
            yield from (sentence for sentence in _sentences(passage) if has_sound(sentence.phonemes))


def _sentences(passage: TextSpan) -> Iterator[PhonemizedSentence]:
    start = 0
    ends = (match.end() for match in _SENTENCE_END.finditer(passage.text))
    for end in chain(ends, (len(passage.text),)):
        for first, last in split_long(passage.text, start, end, _MAX_PHONEMES):
            span = passage.between(passage.start + first, passage.start + last)
            span = replace(span, continues=last < end)
            yield PhonemizedSentence(span, span.text, partial(_words, span))
        start = end


def _words(span: TextSpan) -> tuple[PhonemizedWord, ...]:
    matches = _WORD.finditer(span.text)
    return tuple(
        PhonemizedWord(span.start + match.start(), span.start + match.end(), *match.span()) for match in matches
    )
