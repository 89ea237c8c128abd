"""A text as it was written: its sentences, ready for G2P, and what is said in other words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.text import markup, spoken
from kokoro_server.text.lexicon import LanguageLexicon
from kokoro_server.text.markup import Part, Pronunciation
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.pauses import Pause
from kokoro_server.text.phrase_alignment import PhraseAlignedSentence
from kokoro_server.text.splitter import Span, sentences
from kokoro_server.text.spoken import Claim, Readings
from kokoro_server.text.word_alignment import WordAlignedSentence

Sentence = WordAlignedSentence | PhraseAlignedSentence


class WrittenText:
    """The `stretches` of a text between its pauses."""

    def __init__(
        self,
        stretches: Sequence[Span | Pause],
        language: Language,
        lexicon: LanguageLexicon | None,
        options: ReadingOptions,
    ) -> None:
        self._stretches = stretches
        self._language = language
        self._lexicon = lexicon
        self._options = options

    def sentences(self) -> Iterator[Sentence | Pause | None]:
        """The sentences and the pauses; None for a sentence that has nothing to speak in it."""
        for passage in self._passages():
            if isinstance(passage, Pause):
                yield passage
            else:
                yield from self._sentences(passage)

    def claims(self) -> Iterator[Claim]:
        """What is said in other words, or as somebody has told, or not at all. Offsets are in the original."""
        for passage in self._passages():
            if isinstance(passage, Pause):
                continue
            given = self._given(passage.text)
            for claim in sorted((*given, *self._claims(passage, given))):
                yield claim._replace(start=passage.start + claim.start, end=passage.start + claim.end)

    def unspeakable(self) -> list[Claim]:
        """What this language cannot say."""
        return [claim for claim in self.claims() if claim.rule == spoken.unspeakable.NAME]

    def _passages(self) -> Iterator[Span | Pause]:
        for stretch in self._stretches:
            if isinstance(stretch, Pause):
                yield stretch
            else:
                for start, end in spoken.passages(stretch.text):
                    yield Span(stretch.start + start, stretch.start + end, stretch.text[start:end])

    def _given(self, text: str) -> list[Claim]:
        """The pronunciations in a text, and those of the lexicon."""
        marked = markup.PRONUNCIATION_MARKUP.finditer(text)
        given = [Claim(*match.span(), f"/{match['phonemes']}/", "pronunciation") for match in marked]
        if self._lexicon:
            unmarked = markup.PRONUNCIATION_MARKUP.sub(lambda match: " " * len(match[0]), text)
            given += (Claim(*each, "lexicon") for each in self._lexicon.readings(unmarked))
        return given

    def _claims(self, passage: Span, given: Iterable[Claim]) -> list[Claim]:
        return spoken.claims(
            passage.text,
            self._language,
            kinds=self._options.kinds,
            code=self._options.code_blocks,
            code_spans=self._options.code_spans,
            untouchable=[(claim.start, claim.end) for claim in given],
        )

    def _sentences(self, passage: Span) -> Iterator[Sentence | None]:
        readings = Readings(self._claims(passage, self._given(passage.text)), passage.start)
        for span in sentences(passage.text, offset=passage.start, unbroken=readings.unbroken(passage.text)):
            parts = list(self._parts(span, readings))
            speakable = any(isinstance(part, Pronunciation) or markup.SPEAKABLE.search(part.text) for part in parts)
            yield self._sentence(span, parts) if speakable else None

    def _parts(self, span: Span, readings: Readings) -> Iterator[Part]:
        for part in markup.split_pronunciations(span.text, span.start, readings.read):
            if self._lexicon and not isinstance(part, Pronunciation):
                yield from self._lexicon.apply(part)
            else:
                yield part

    def _sentence(self, span: Span, parts: Sequence[Part]) -> Sentence:
        if self._language in languages.ENGLISH:
            return WordAlignedSentence(span, parts)
        return PhraseAlignedSentence(span, parts, self._language)
