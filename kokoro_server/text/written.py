"""A text as it was written: its sentences, ready for G2P, and the spans that are said in other words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from kokoro_server import languages
from kokoro_server.errors import TextTooLong
from kokoro_server.languages import Language
from kokoro_server.text import markup, script, spoken
from kokoro_server.text.alignment.phrases import PhraseAlignedSentence
from kokoro_server.text.alignment.words import WordAlignedSentence
from kokoro_server.text.lexicon import LanguageLexicon
from kokoro_server.text.markup import Part, Pronunciation
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.pauses import Pause
from kokoro_server.text.script import Run, Script
from kokoro_server.text.splitter import TextSpan, sentences
from kokoro_server.text.spoken import Claim, Readings

AlignedSentence = WordAlignedSentence | PhraseAlignedSentence
WrittenItem = AlignedSentence | Pause | Run  # a run stands before its first sentence

# Characters in which one sentence is said. A sentence is at most 800 as it is written, which the rules make a few
# thousand; a lexicon or SSML could make it millions, which all other texts would wait for in G2P.
_MAX_SAID = 10_000


class WrittenText:
    """The `spans` of a text between its pauses. `prescribed`: readings that SSML prescribes, in order.

    `continues_at`: a sentence that ends there goes on in another text. `alone`: it is the only text of a script.
    """

    def __init__(
        self,
        spans: Sequence[TextSpan | Pause],
        language: Language,
        lexicon: LanguageLexicon | None,
        options: ReadingOptions,
        prescribed: Sequence[Claim] = (),
        continues_at: int | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self._spans = spans
        self._language = language
        self._lexicon = lexicon
        self._options = options
        self._prescribed = prescribed
        self._prescribed_ends = [claim.end for claim in prescribed]
        self._continues_at = continues_at
        self._alone = alone and len(spans) == 1 and options.name_signs

    def sentences(self) -> Iterator[AlignedSentence | Pause | None]:
        """The sentences and the pauses; None for a sentence that has nothing to speak in it."""
        for passage in self._passages():
            if isinstance(passage, Pause):
                yield passage
            else:
                yield from self._sentences(passage)

    def claims(self) -> Iterator[Claim]:
        """The spans that are said in other words, as SSML prescribes, or not at all. Offsets are in the original."""
        for passage in self._passages():
            if isinstance(passage, Pause):
                continue
            given = self._given(passage)
            for claim in sorted((*given, *self._claims(passage, given))):
                yield claim._replace(start=passage.start + claim.start, end=passage.start + claim.end)

    def unspeakable(self) -> list[Claim]:
        """The letters that this language cannot say."""
        return [claim for claim in self.claims() if claim.rule == spoken.unspeakable.NAME]

    def rare(self) -> str:
        """Chinese characters that G2P may not know and that no claim covers, each once."""
        found = dict[str, None]()
        for passage in self._passages():
            places = [] if isinstance(passage, Pause) else spoken.unspeakable.rare(passage.text, self._language)
            if isinstance(passage, Pause) or not places:
                continue
            given = self._given(passage)
            claims = (*given, *self._claims(passage, given))
            for place in places:
                if not any(claim.start <= place < claim.end for claim in claims):
                    found[passage.text[place]] = None
        return "".join(found)

    def _passages(self) -> Iterator[TextSpan | Pause]:
        for span in self._spans:
            if isinstance(span, Pause):
                yield span
            else:
                for start, end in spoken.passages(span.text):
                    yield TextSpan(span.start + start, span.start + end, span.text[start:end])

    def _given(self, passage: TextSpan) -> list[Claim]:
        """The pronunciations in a passage, and those of the lexicon."""
        text = passage.text
        marked = markup.PRONUNCIATION_MARKUP.finditer(text)
        given = [Claim(*match.span(), f"/{match['phonemes']}/", "pronunciation") for match in marked]
        if self._lexicon:
            unmarked = markup.PRONUNCIATION_MARKUP.sub(lambda match: " " * len(match[0]), text)
            prescribed = self._prescribed_within(passage)
            given += (
                Claim(*each, "lexicon")
                for each in self._lexicon.readings(unmarked)
                if not any(claim.start < each[1] and each[0] < claim.end for claim in prescribed)
            )
        return given

    def _prescribed_within(self, passage: TextSpan) -> list[Claim]:
        """The prescribed claims on a passage. The words of a claim belong to the passage in which it begins."""
        later = range(bisect_right(self._prescribed_ends, passage.start), len(self._prescribed))
        return [
            Claim(
                max(claim.start - passage.start, 0),
                min(claim.end, passage.end) - passage.start,
                claim.words if claim.start >= passage.start else "",
                claim.rule,
            )
            for claim in takewhile(lambda claim: claim.start < passage.end, map(self._prescribed.__getitem__, later))
        ]

    def _claims(self, passage: TextSpan, given: Iterable[Claim]) -> list[Claim]:
        prescribed = self._prescribed_within(passage)
        found = spoken.claims(
            passage.text,
            self._language,
            kinds=self._options.kinds,
            code=self._options.code_blocks,
            code_spans=self._options.code_spans,
            alone=self._alone,
            untouchable=[(claim.start, claim.end) for claim in (*given, *prescribed)],
        )
        return sorted((*found, *prescribed)) if prescribed else found

    def _sentences(self, passage: TextSpan) -> Iterator[AlignedSentence | None]:
        readings = Readings(self._claims(passage, self._given(passage)), passage.start)
        for span in sentences(passage.text, offset=passage.start, unbroken=readings.unbroken(passage.text)):
            if span.end == self._continues_at:
                span = replace(span, continues=True)
            parts = list(self._parts(span, readings))
            self._check_length(parts)
            speakable = any(isinstance(part, Pronunciation) or markup.SPEAKABLE.search(part.text) for part in parts)
            yield self._sentence(span, parts) if speakable else None

    def _check_length(self, parts: Sequence[Part]) -> None:
        if not self._lexicon and not self._prescribed:
            return
        said = sum(len(part.phonemes if isinstance(part, Pronunciation) else part.text) for part in parts)
        if said > _MAX_SAID:
            raise TextTooLong(
                f"a lexicon or SSML has one sentence said in {said} characters; at most {_MAX_SAID} are allowed; use "
                "shorter readings or end the sentence earlier",
                field="text",
            )

    def _parts(self, span: TextSpan, readings: Readings) -> Iterator[Part]:
        for part in markup.split_pronunciations(span.text, span.start, readings.read):
            if self._lexicon and not isinstance(part, Pronunciation):
                yield from self._lexicon.apply(part)
            else:
                yield part

    def _sentence(self, span: TextSpan, parts: Sequence[Part]) -> AlignedSentence:
        if self._language in languages.ENGLISH:
            return WordAlignedSentence(span, parts)
        return PhraseAlignedSentence(span, parts, self._language)


class WrittenScript:
    """A script whose runs are ready to be read."""

    def __init__(self, parts: Script, written: Sequence[WrittenText | Pause]) -> None:
        self._parts = parts
        self._written = written
        self.first = next(script.runs(parts), None)
        self.language = self.first.delivery.language if self.first else languages.EN_US

    def runs(self) -> Iterator[tuple[Run, WrittenText]]:
        for part, written in zip(self._parts, self._written, strict=True):
            if isinstance(part, Run) and isinstance(written, WrittenText):
                yield part, written

    def items(self) -> Iterator[WrittenItem | None]:
        """The sentences, and what is between them. If there is only one run, it is not named."""
        only = self._written[0] if len(self._written) == 1 else None
        return only.sentences() if isinstance(only, WrittenText) else self._named_items()

    def _named_items(self) -> Iterator[WrittenItem | None]:
        for part, written in zip(self._parts, self._written, strict=True):
            if isinstance(written, Pause):
                yield written
                continue
            named = False
            for item in written.sentences():
                if item is not None and not named and isinstance(part, Run):
                    yield part
                    named = True
                yield item

    def claims(self) -> list[Claim]:
        """The spans that are said in other words. Offsets are in the original."""
        found = list[Claim]()
        for run, written in self.runs():
            for claim in written.claims():
                start, end = run.text.origin(claim.start, claim.end)
                found.append(claim._replace(start=start, end=end))
        return found
