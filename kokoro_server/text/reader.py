"""Turns text, or phonemes, into pieces for the model."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol

from kokoro_server.engine import vocab
from kokoro_server.errors import InvalidInput, NothingToSay, Unspeakable
from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.result import G2PResult
from kokoro_server.text import markup, spoken
from kokoro_server.text.lexicon import Lexicon, request_lexicon
from kokoro_server.text.options import DEFAULT_OPTIONS, OnUnspeakable, ReadingOptions
from kokoro_server.text.pace import Pace
from kokoro_server.text.pauses import Pause, split_pauses
from kokoro_server.text.phonemized import PhonemizedSentence, Word, has_sound
from kokoro_server.text.pieces import ClipPacker, Cutting, PacedPacker, Packer, Piece, PieceSizes
from kokoro_server.text.splitter import Span, split_long
from kokoro_server.text.spoken import Claim
from kokoro_server.text.written import Sentence, WrittenText

# The most characters and sentences in the first call to G2P, the second and so on: few at first, so that synthesis can
# start early. A clip, which nobody hears before it is whole, begins with the second.
_CALL_LIMITS = ((80, 2), (500, 8), (2_000, 32), (4_000, 64))
# A longer text, or one that has more numbers and signs, is read in a thread: each of these takes some 0.1 ms.
_LONG_TEXT = 2_000  # characters
_MANY_SIGNS = 10
_SIGN = re.compile(r"[0-9]+|[^\w\s.,;:!?'\"()-]+")
_LONGEST_TURN = 0.005  # seconds that a text may hold the event loop, about
_PHONEMES_PER_CHARACTER = {languages.JA: 2.7, languages.ZH: 4.0}  # about
_PHONEMES_PER_LETTER = 1.2  # about, in the other languages
# The look-behind keeps a long run of marks from being tried at each of its marks.
_PHONEME_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"”)]*+(?=\s|\Z)")
_MAX_SENTENCE_PHONEMES = 2_000  # a longer one is broken: where to cut a sentence is found by looking at all of it
_PHONEME_WORD = re.compile(r"[^ ;:,.!?—…\"()“”]+")


_NAMED = 10  # letters at most, in the error about those that cannot be said


class G2P(Protocol):
    """What the reader needs of a G2PClient."""

    async def convert(self, texts: Sequence[str], language: Language, /) -> list[G2PResult]: ...


@dataclass(frozen=True, slots=True)
class _G2PCall:
    """The sentences that are sent to G2P at once, and the pauses between them. `more`: other calls follow."""

    items: Sequence[Sentence | Pause]
    more: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What would be said, why, and what would be left out, as it cannot be said."""

    sentences: Sequence[PhonemizedSentence]
    claims: Sequence[Claim]
    skipped: str


class Reader:
    """Reads lazily: the first piece is there after one small call to G2P, however long the text.

    `g2p_timer` makes the context in which each call to G2P runs. `pace` tells that of an engine whose speed is known: a
    stream is then cut so that it starts early and does not stall. Without a pace, or on an engine fast enough, it has a
    short start. If the length of the first piece is fixed, every text has, and so sounds alike, streamed or not.
    """

    def __init__(
        self,
        g2p: G2P,
        sizes: PieceSizes,
        lexicon: Lexicon | None = None,
        g2p_timer: Callable[[], AbstractContextManager[Any]] = nullcontext,
        pace: Callable[[], Pace | None] = lambda: None,
        unspeakable: OnUnspeakable = "refuse",
    ) -> None:
        self._g2p = g2p
        self._sizes = sizes
        self._lexicon = lexicon
        self._g2p_timer = g2p_timer
        self._pace = pace
        self._unspeakable = unspeakable

    async def pieces(
        self,
        text: str,
        language: Language,
        speed: float = 1.0,
        *,
        cutting: Cutting = "clip",
        options: ReadingOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Piece | Pause, None]:
        """The pieces of `text` and the pauses between them, in order.

        Raises InvalidInput, before the first piece, for a bad pause or pronunciation anywhere in the text, and
        Unspeakable, unless the `options` say otherwise. Raises NothingToSay if there is neither speech nor a pause.
        """
        written = await self._written(text, language, options)
        skipped = len(await self._skipped(text, language, written, options))
        phonemes = int(len(text) * _PHONEMES_PER_CHARACTER.get(language, _PHONEMES_PER_LETTER))
        packer, silent = self._packer(speed, phonemes, cutting), True
        limits = _CALL_LIMITS[1:] if cutting == "clip" else _CALL_LIMITS
        calls = _group_into_calls(written.sentences(), limits)
        async for call in _in_turns(calls, in_thread=_takes_time(text, options)):
            sentences, dropped = await self._phonemize(call.items, language)
            skipped += len(self._skip(dropped, language, options))
            for item in _pack(packer, sentences, more=call.more):
                silent = False
                if skipped and isinstance(item, Piece):
                    yield replace(item, skipped=skipped)
                    skipped = 0
                else:
                    yield item
        left = packer.finish()
        for piece in left:
            silent = False
            yield replace(piece, last=piece is left[-1], skipped=skipped)
            skipped = 0
        if silent:
            problem = "has nothing that can be spoken: no letters, no numbers" if text.strip() else "is empty"
            raise NothingToSay(f"text {problem}", field="text")

    async def reading(self, text: str, language: Language, options: ReadingOptions = DEFAULT_OPTIONS) -> Reading:
        """What would be said, be it nothing. Raises what `pieces` raises, except for NothingToSay."""
        written = await self._written(text, language, options)
        skipped = await self._skipped(text, language, written, options)
        claims = await asyncio.to_thread(lambda: list(written.claims()))
        sentences = list[PhonemizedSentence]()
        async for call in _in_turns(
            _group_into_calls(written.sentences(), _CALL_LIMITS), in_thread=_takes_time(text, options)
        ):
            phonemized, dropped = await self._phonemize(call.items, language)
            skipped += self._skip(dropped, language, options)
            sentences += (each for each in phonemized if isinstance(each, PhonemizedSentence))
        return Reading(sentences, claims, skipped)

    async def _written(self, text: str, language: Language, options: ReadingOptions) -> WrittenText:
        markup.check_pronunciations(text)
        stretches = list(split_pauses(text))
        if not spoken.is_loaded(language):
            await asyncio.to_thread(spoken.load, language)
        lexicon = await self._lexicon.for_language(language) if self._lexicon else None
        if options.lexicon:
            lexicon = await asyncio.to_thread(request_lexicon, options.lexicon, language, lexicon)
        return WrittenText(stretches, language, lexicon, options)

    async def _skipped(self, text: str, language: Language, written: WrittenText, options: ReadingOptions) -> str:
        """The letters of `text` that cannot be said. Raises Unspeakable unless they are to be skipped."""
        if not spoken.unspeakable.may_be_in(text, language):
            return ""
        claims = await asyncio.to_thread(written.unspeakable)
        return self._skip("".join(text[claim.start : claim.end] for claim in claims), language, options)

    def _skip(self, letters: str, language: Language, options: ReadingOptions) -> str:
        if letters and (options.unspeakable or self._unspeakable) == "refuse":
            distinct = list(dict.fromkeys(letters))
            named = ", ".join(f"{letter!r} (U+{ord(letter):04X})" for letter in distinct[:_NAMED])
            more = f" and {len(distinct) - _NAMED} others" if len(distinct) > _NAMED else ""
            raise Unspeakable(
                f"text has letters that cannot be said in {language.name}: {named}{more}; give the language that they "
                'belong to, or "unspeakable": "skip" to leave them out',
                field="text",
            )
        return letters

    async def phoneme_pieces(
        self, phonemes: str, speed: float = 1.0, *, cutting: Cutting = "clip"
    ) -> AsyncGenerator[Piece | Pause, None]:
        """As `pieces`, for phonemes instead of text. Words are what stands between spaces and marks.

        Raises InvalidInput that names the phonemes that the model does not know.
        """
        turn, items = _Turn(), list[PhonemizedSentence | Pause]()
        for found in _split_phonemes(re.sub(r"\s", " ", phonemes)):
            items.append(found)
            await turn.give_way()
        if not items:
            problem = "have no sound in them" if phonemes.strip() else "are empty"
            raise NothingToSay(f"phonemes {problem}", field="phonemes")
        for item in _pack(self._packer(speed, len(phonemes), cutting), items, more=False):
            await turn.give_way()
            yield item

    def _packer(self, speed: float, phonemes: int, cutting: Cutting) -> Packer:
        """A packer for a text of about so many phonemes."""
        sizes = self._sizes
        if cutting == "clip" and not sizes.first_is_fixed:
            return ClipPacker(sizes.shortest, sizes.longest)
        pace = self._pace() if cutting == "stream" and not sizes.first_is_fixed else None
        if pace is not None and pace.needs_plan:
            return PacedPacker(sizes, replace(pace, speed=speed), phonemes)
        return Packer(sizes.shortest, sizes.longest, sizes.first)

    async def _phonemize(
        self, items: Sequence[Sentence | Pause], language: Language
    ) -> tuple[list[PhonemizedSentence | Pause], str]:
        """The items with their phonemes, without those that have no sound; and the letters that G2P could not say."""
        texts = [text for item in items if not isinstance(item, Pause) for text in item.texts]
        converted: Sequence[G2PResult] = ()
        if texts:
            with self._g2p_timer():
                converted = await self._g2p.convert(texts, language)
        dropped = "".join(each for result in converted for each in result.dropped if each.isalnum())
        results = iter(converted)
        phonemized: list[PhonemizedSentence | Pause] = []
        for item in items:
            if phonemized:
                await asyncio.sleep(0)  # a long text must not hold up the others
            done = item if isinstance(item, Pause) else item.with_phonemes(list(islice(results, len(item.texts))))
            if isinstance(done, Pause) or has_sound(done.phonemes):
                phonemized.append(done)
        return phonemized, dropped


class _Turn:
    """Keeps a long text from holding the event loop."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def give_way(self) -> None:
        """Let others run, if it is long enough since they could."""
        if time.perf_counter() - self._began > _LONGEST_TURN:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


def _takes_time(text: str, options: ReadingOptions) -> bool:
    return len(text) > _LONG_TEXT or len(_SIGN.findall(text)) > _MANY_SIGNS or options.lexicon is not None


async def _in_turns(calls: Iterator[_G2PCall | None], *, in_thread: bool) -> AsyncIterator[_G2PCall]:
    """The calls, made without holding the event loop: in a thread, or giving way now and then."""
    if in_thread:
        found = filter(None, calls)
        while call := await asyncio.to_thread(next, found, None):
            yield call
        return
    turn = _Turn()
    for each in calls:
        if each is None:
            await turn.give_way()
        else:
            yield each


def _group_into_calls(
    items: Iterable[Sentence | Pause | None], limits: Sequence[tuple[int, int]] = _CALL_LIMITS
) -> Iterator[_G2PCall | None]:
    """The calls; None in between, as each of the `items` may have taken a while."""
    group, characters, count, calls = list[Sentence | Pause](), 0, 0, 0
    for item in items:
        yield None
        if item is None:
            continue
        length = 0 if isinstance(item, Pause) else sum(map(len, item.texts))
        max_characters, max_count = limits[min(calls, len(limits) - 1)]
        if count and (count == max_count or characters + length > max_characters):
            yield _G2PCall(group, more=True)
            group, characters, count, calls = [], 0, 0, calls + 1
        group.append(item)
        characters += length
        count += 1
    if group:
        yield _G2PCall(group, more=False)


def _pack(packer: Packer, items: Sequence[PhonemizedSentence | Pause], *, more: bool) -> Iterator[Piece | Pause]:
    """The pieces that `items` complete: all of them, if there are no `more` to come."""
    for index, item in enumerate(items):
        if isinstance(item, Pause):
            yield from packer.finish()
            packer.add_pause(item.seconds)
            yield item
            continue
        pieces = packer.add(item)
        if not more and index == len(items) - 1:
            *pieces, end = pieces + packer.finish()
            pieces.append(replace(end, last=True))
        yield from pieces


def _split_phonemes(phonemes: str) -> Iterator[PhonemizedSentence | Pause]:
    stretches = list(split_pauses(phonemes, field="phonemes"))
    spoken = "".join(stretch.text for stretch in stretches if isinstance(stretch, Span))
    if vocab.unknown(spoken):
        raise InvalidInput(markup.describe_unknown(spoken), field="phonemes")
    for stretch in stretches:
        if isinstance(stretch, Pause):
            yield stretch
        else:
            yield from (sentence for sentence in _phoneme_sentences(stretch) if has_sound(sentence.phonemes))


def _phoneme_sentences(stretch: Span) -> Iterator[PhonemizedSentence]:
    start = 0
    ends = (match.end() for match in _PHONEME_SENTENCE_END.finditer(stretch.text))
    for end in chain(ends, (len(stretch.text),)):
        for first, last in split_long(stretch.text, start, end, _MAX_SENTENCE_PHONEMES):
            span = stretch.between(stretch.start + first, stretch.start + last)
            span = replace(span, continues=last < end)
            yield PhonemizedSentence(span, span.text, partial(_phoneme_words, span))
        start = end


def _phoneme_words(span: Span) -> tuple[Word, ...]:
    matches = _PHONEME_WORD.finditer(span.text)
    return tuple(Word(span.start + match.start(), span.start + match.end(), *match.span()) for match in matches)
