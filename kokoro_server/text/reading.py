"""Text, or phonemes, to pieces for the model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

from kokoro_server.engine import vocab
from kokoro_server.errors import InvalidInput, NothingToSay
from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.phonemes import Phonemes
from kokoro_server.text import markup, pauses
from kokoro_server.text.english import EnglishSentence
from kokoro_server.text.lexicon import Lexicon, Rules
from kokoro_server.text.markup import SPOKEN, Given, Part
from kokoro_server.text.pace import Pace
from kokoro_server.text.pauses import Pause
from kokoro_server.text.phrases import PhrasedSentence
from kokoro_server.text.pieces import PacedPacker, Packer, Piece, PieceSizes
from kokoro_server.text.splitter import Span, sentences
from kokoro_server.text.spoken import Spoken, Word, is_speech

__all__ = ["Pause", "Piece", "PieceSizes", "Reader", "Word"]

Sentence = EnglishSentence | PhrasedSentence

_ENGLISH = (languages.EN_US, languages.EN_GB)
# Characters and sentences in one call to G2P, from call to call: few at first, so that synthesis can start.
_CALL_SIZES = ((80, 2), (500, 8), (2_000, 32), (4_000, 64))
_PER_CHARACTER = {languages.JA: 2.7, languages.ZH: 4.0}  # phonemes, about; in other languages:
_PER_LETTER = 1.2
_PHONEME_SENTENCE_END = re.compile(r"[.!?]+[\"”)]*(?=\s|\Z)")
_PHONEME_WORD = re.compile(r"[^ ;:,.!?—…\"()“”]+")


class G2P(Protocol):
    """What is asked of a G2PClient."""

    async def convert(self, texts: Sequence[str], language: Language, /) -> list[Phonemes]: ...


@dataclass(frozen=True, slots=True)
class _Call:
    """What is sent to G2P at once, with the pauses between; `more` if anything follows."""

    items: Sequence[Sentence | Pause]
    more: bool


class Reader:
    """Lazy: the first piece is there after one small call to G2P, however long the text.

    `g2p_time` gives the context in which each call to G2P is made. `pace` is for an engine whose speed is known: a text
    that is heard while it is made (`streamed`) is then cut so that it is heard early and goes on. Without it, on an
    engine fast enough, or if the length of the first piece is given, a text is cut alike, and so sounds alike, streamed
    or not.
    """

    def __init__(
        self,
        g2p: G2P,
        sizes: PieceSizes,
        lexicon: Lexicon | None = None,
        g2p_time: Callable[[], AbstractContextManager[Any]] = nullcontext,
        pace: Pace | None = None,
    ) -> None:
        self._g2p = g2p
        self._sizes = sizes
        self._lexicon = lexicon
        self._g2p_time = g2p_time
        self._pace = pace

    async def pieces(
        self, text: str, language: Language, speed: float = 1.0, *, streamed: bool = False
    ) -> AsyncGenerator[Piece | Pause, None]:
        """The pieces of `text` and the pauses between them, in order.

        Before the first of them: InvalidInput for a bad pause or pronunciation anywhere in the text. NothingToSay if
        there is neither speech nor a pause in it.
        """
        markup.check(text)
        stretches = list(pauses.parts(text))
        rules = await self._lexicon.rules(language) if self._lexicon else None
        phonemes = int(len(text) * _PER_CHARACTER.get(language, _PER_LETTER))
        packer, silent = self._packer(speed, phonemes, streamed=streamed), True
        for call in _calls(_items(stretches, language, rules)):
            for item in _packed(packer, await self._converted(call.items, language), more=call.more):
                silent = False
                yield item
        for piece in packer.finish():
            silent = False
            yield replace(piece, last=True)
        if silent:
            problem = "has nothing that can be spoken: no letters, no numbers" if text.strip() else "is empty"
            raise NothingToSay(f"text {problem}", field="text")

    async def spell(
        self, phonemes: str, speed: float = 1.0, *, streamed: bool = False
    ) -> AsyncGenerator[Piece | Pause, None]:
        """As `pieces`, for phonemes instead of text; words are what stands between spaces and marks.

        InvalidInput names those that the model does not know.
        """
        items = list(_phoneme_items(re.sub(r"\s", " ", phonemes)))
        if not items:
            problem = "have no sound in them" if phonemes.strip() else "are empty"
            raise NothingToSay(f"phonemes {problem}", field="phonemes")
        for item in _packed(self._packer(speed, len(phonemes), streamed=streamed), items, more=False):
            yield item

    def _packer(self, speed: float, phonemes: int, *, streamed: bool) -> Packer:
        """For a text of about so many phonemes."""
        if streamed and self._pace and self._pace.matters and not self._sizes.first_is_given:
            return PacedPacker(self._sizes, replace(self._pace, speed=speed), phonemes)
        return Packer(self._sizes.shortest, self._sizes.longest, self._sizes.first)

    async def _converted(self, items: Sequence[Sentence | Pause], language: Language) -> list[Spoken | Pause]:
        """The items with their phonemes, without those that have no sound."""
        texts = [text for item in items if not isinstance(item, Pause) for text in item.texts]
        answers: Iterator[Phonemes] = iter(())
        if texts:
            with self._g2p_time():
                answers = iter(await self._g2p.convert(texts, language))
        spoken: list[Spoken | Pause] = []
        for item in items:
            if spoken:
                await asyncio.sleep(0)  # a long text must not hold up the others
            heard = item if isinstance(item, Pause) else item.spoken(list(islice(answers, len(item.texts))))
            if isinstance(heard, Pause) or is_speech(heard.phonemes):
                spoken.append(heard)
        return spoken


def _items(stretches: Iterable[Span | Pause], language: Language, rules: Rules | None) -> Iterator[Sentence | Pause]:
    """The sentences that G2P can make something of, and the pauses."""
    for stretch in stretches:
        if isinstance(stretch, Pause):
            yield stretch
            continue
        for span in sentences(stretch.text, offset=stretch.start):
            parts = list(_parts(span, rules))
            if any(isinstance(part, Given) or SPOKEN.search(part.text) for part in parts):
                yield _sentence(span, parts, language)


def _parts(span: Span, rules: Rules | None) -> Iterator[Part]:
    for part in markup.parts(span.text, span.start):
        if rules and not isinstance(part, Given):
            yield from rules.apply(part)
        else:
            yield part


def _sentence(span: Span, parts: Sequence[Part], language: Language) -> Sentence:
    return EnglishSentence(span, parts) if language in _ENGLISH else PhrasedSentence(span, parts, language)


def _calls(items: Iterable[Sentence | Pause]) -> Iterator[_Call]:
    together, characters, count, calls = list[Sentence | Pause](), 0, 0, 0
    for item in items:
        length = 0 if isinstance(item, Pause) else sum(map(len, item.texts))
        most_characters, most = _CALL_SIZES[min(calls, len(_CALL_SIZES) - 1)]
        if count and (count == most or characters + length > most_characters):
            yield _Call(together, more=True)
            together, characters, count, calls = [], 0, 0, calls + 1
        together.append(item)
        characters += length
        count += 1
    if together:
        yield _Call(together, more=False)


def _packed(packer: Packer, items: Sequence[Spoken | Pause], *, more: bool) -> Iterator[Piece | Pause]:
    """The pieces that `items` complete: all of them, if there are no `more` to come."""
    for place, item in enumerate(items):
        if isinstance(item, Pause):
            yield from packer.finish()
            packer.rest(item.seconds)
            yield item
            continue
        pieces = packer.add(item)
        if not more and place == len(items) - 1:
            *pieces, end = pieces + packer.finish()
            pieces.append(replace(end, last=True))
        yield from pieces


def _phoneme_items(phonemes: str) -> Iterator[Spoken | Pause]:
    stretches = list(pauses.parts(phonemes, field="phonemes"))
    unknown = "".join(stretch.text for stretch in stretches if isinstance(stretch, Span))
    if vocab.unknown(unknown):
        raise InvalidInput(markup.named_unknown(unknown), field="phonemes")
    for stretch in stretches:
        if isinstance(stretch, Pause):
            yield stretch
        else:
            yield from (spoken for spoken in _phoneme_sentences(stretch) if is_speech(spoken.phonemes))


def _phoneme_sentences(stretch: Span) -> Iterator[Spoken]:
    start = stretch.start
    ends = [stretch.start + match.end() for match in _PHONEME_SENTENCE_END.finditer(stretch.text)]
    for end in (*ends, stretch.end):
        span = stretch.between(start, end)
        yield Spoken(span, span.text, partial(_phoneme_words, span))
        start = end


def _phoneme_words(span: Span) -> tuple[Word, ...]:
    found = _PHONEME_WORD.finditer(span.text)
    return tuple(Word(span.start + word.start(), span.start + word.end(), *word.span()) for word in found)
