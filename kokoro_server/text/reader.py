"""Turns text, or phonemes, into pieces for the model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from kokoro_server import languages
from kokoro_server.engine import vocab
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import NothingToSay, Unspeakable
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language
from kokoro_server.text import markup, script, spoken
from kokoro_server.text.g2p_calls import CALL_LIMITS, LoopShare, group_into_calls, in_turns, takes_time
from kokoro_server.text.given_phonemes import split_phonemes
from kokoro_server.text.lexicon import LanguageLexicon, Lexicon, request_lexicon
from kokoro_server.text.options import DEFAULT_OPTIONS, OnUnspeakable, ReadingOptions
from kokoro_server.text.pace import Pace
from kokoro_server.text.pauses import Pause, split_pauses
from kokoro_server.text.phonemized import PhonemizedSentence, has_sound
from kokoro_server.text.pieces import ClipPacker, Cutting, PacedPacker, Packer, Piece, PieceSizes
from kokoro_server.text.script import Delivery, Run, Script
from kokoro_server.text.spoken import Claim
from kokoro_server.text.traced import Traced
from kokoro_server.text.written import WrittenItem, WrittenScript, WrittenText

_PHONEMES_PER_CHARACTER = {languages.JA: 2.7, languages.ZH: 4.0}  # about
_PHONEMES_PER_LETTER = 1.2  # about, in the other languages
_FEW_PHONEMES = 20  # of a word or two
_MOST_RARE = 1_000  # characters that G2P is asked about before it reads a text
_NAMED = 10  # letters at most, in the error about those that cannot be said


class G2P(Protocol):
    """The part of a G2PClient that the reader uses."""

    async def convert(self, texts: Sequence[str], language: Language, /, *, bulk: bool) -> list[G2PResult]: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """The sentences as they would be said, the claims behind them, and the letters that cannot be said."""

    sentences: Sequence[PhonemizedSentence]
    claims: Sequence[Claim]
    skipped: str


class Reader:
    """Reads lazily: the first piece is ready after one small call to G2P, however long the text.

    `g2p_timer` makes the context in which each call to G2P runs. `pace` returns the pace of an engine whose speed is
    known: a stream is then cut so that it starts early and does not stall. Without a pace, or on an engine fast enough,
    it has a short start. If the length of the first piece is fixed, every text has a short start, and sounds alike
    streamed or not.
    """

    def __init__(
        self,
        g2p: G2P,
        sizes: PieceSizes,
        lexicon: Lexicon | None = None,
        g2p_timer: Callable[[], AbstractContextManager[Any]] = nullcontext,
        pace: Callable[[], Pace | None] = lambda: None,
        unspeakable: OnUnspeakable = "refuse",
        vocabulary: ModelVocabulary | None = None,
    ) -> None:
        self._g2p = g2p
        self._sizes = sizes
        self._lexicon = lexicon
        self._g2p_timer = g2p_timer
        self._pace = pace
        self._unspeakable = unspeakable
        self._vocabulary = vocabulary or vocab.built_in()

    def pieces(
        self,
        text: str,
        language: Language,
        speed: float = 1.0,
        *,
        cutting: Cutting = "clip",
        options: ReadingOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Piece | Pause, None]:
        """As `script_pieces`, for a bare text."""
        run = Run(Traced.of(text), Delivery("", language, speed))
        return self.script_pieces([run], cutting=cutting, options=options)

    async def script_pieces(
        self,
        parts: Script,
        *,
        cutting: Cutting = "clip",
        options: ReadingOptions = DEFAULT_OPTIONS,
        bulk: bool = False,
        apart: bool = False,
    ) -> AsyncGenerator[Piece | Pause, None]:
        """The pieces of a script and the pauses between them, in order. No piece has text of two runs.

        `bulk`: G2P takes its texts after those of all other requests. `apart`: each sentence is a piece of its own,
        unless a stream of a slow engine would stall.
        Raises InvalidInput, before the first piece, for a bad pause or pronunciation anywhere in the text, and
        Unspeakable, unless the `options` say otherwise. Raises NothingToSay if there is neither speech nor a pause.
        """
        written = await self._written(parts, options)
        skipped = len(await self._skipped(written, options))
        packer, silent = _RunPacker(self._packer(written, cutting, apart)), True
        limits = CALL_LIMITS[1:] if cutting == "clip" else CALL_LIMITS
        calls = group_into_calls(written.items(), written.language, limits)
        begun = False
        async for call in in_turns(calls, in_thread=_takes_time(parts, options)):
            sentences, dropped = await self._phonemize(call.items, call.language, bulk=bulk)
            if not (begun or call.more):
                sentences = _ended(sentences)
            begun = True
            # Once a stream speaks, a late letter must not end it.
            streaming = cutting == "stream" and not silent
            skipped += len(dropped if streaming else self._skip(dropped, call.language, options))
            for item in packer.pack(sentences, more=call.more):
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
            empty = not any(run.text.text.strip() for run in script.runs(parts))
            problem = "is empty" if empty else "has nothing that can be spoken: no letters, no numbers"
            error = NothingToSay(f"text {problem}", field="text")
            error.skipped = skipped
            raise error

    async def reading(self, parts: Script, options: ReadingOptions = DEFAULT_OPTIONS) -> Reading:
        """The reading of a script, which may be empty. Raises as `script_pieces` does, except for NothingToSay."""
        written = await self._written(parts, options)
        skipped = await self._skipped(written, options)
        claims = await asyncio.to_thread(written.claims)
        sentences, run = list[PhonemizedSentence](), written.first
        async for call in in_turns(
            group_into_calls(written.items(), written.language), in_thread=_takes_time(parts, options)
        ):
            phonemized, dropped = await self._phonemize(call.items, call.language)
            skipped += self._skip(dropped, call.language, options)
            if not (sentences or call.more):
                phonemized = _ended(phonemized)
            for each in phonemized:
                if isinstance(each, Run):
                    run = each
                elif isinstance(each, PhonemizedSentence) and run:
                    sentences.append(each.traced_to(run.text))
        return Reading(sentences, claims, skipped)

    async def _written(self, parts: Script, options: ReadingOptions) -> WrittenScript:
        lexicons, turn = dict[Language, LanguageLexicon | None](), LoopShare()
        written = list[WrittenText | Pause]()
        for part in parts:
            if isinstance(part, Pause):
                written.append(part)
                continue
            language, text = part.delivery.language, part.text.text
            if language not in lexicons:
                lexicons[language] = await self._lexicon_for(language, options)
            markup.check_pronunciations(text, part.text.starts, self._vocabulary)
            passages = list(split_pauses(text, origin=part.text.starts))
            await turn.give_way()
            continues_at = len(text.rstrip()) if part.continues else None
            lexicon, alone = lexicons[language], len(parts) == 1
            written.append(WrittenText(passages, language, lexicon, options, part.claims, continues_at, alone=alone))
        return WrittenScript(parts, written)

    async def _lexicon_for(self, language: Language, options: ReadingOptions) -> LanguageLexicon | None:
        if not spoken.is_loaded(language):
            await asyncio.to_thread(spoken.load, language)
        lexicon = await self._lexicon.for_language(language) if self._lexicon else None
        if options.lexicon:
            lexicon = await asyncio.to_thread(request_lexicon, options.lexicon, language, lexicon, self._vocabulary)
        return lexicon

    async def _skipped(self, written: WrittenScript, options: ReadingOptions) -> str:
        """The letters of a script that cannot be said. Raises Unspeakable unless they are to be skipped."""
        skipped = ""
        for run, text in written.runs():
            await self._check_rare(run, text, options)
            if spoken.unspeakable.may_be_in(run.text.text, run.delivery.language):
                claims = await asyncio.to_thread(text.unspeakable)
                letters = "".join(run.text.text[claim.start : claim.end] for claim in claims)
                skipped += self._skip(letters, run.delivery.language, options)
        return skipped

    async def _check_rare(self, run: Run, text: WrittenText, options: ReadingOptions) -> None:
        """Asks G2P about rare characters before the first piece. Raises Unspeakable unless they are to be skipped."""
        language = run.delivery.language
        if not self._refuses(options) or not spoken.unspeakable.rare(run.text.text, language):
            return
        if letters := await asyncio.to_thread(text.rare):
            results = await self._g2p.convert([letters[:_MOST_RARE]], language, bulk=False)
            self._skip(_dropped(results), language, options)

    def _skip(self, letters: str, language: Language, options: ReadingOptions) -> str:
        if letters and self._refuses(options):
            distinct = list(dict.fromkeys(letters))
            named = ", ".join(f"{letter!r} (U+{ord(letter):04X})" for letter in distinct[:_NAMED])
            more = f" and {len(distinct) - _NAMED} others" if len(distinct) > _NAMED else ""
            raise Unspeakable(
                f"text has letters that cannot be said in {language.name}: {named}{more}; give the language that they "
                'belong to, or "unspeakable": "skip" to leave them out',
                field="text",
            )
        return letters

    def _refuses(self, options: ReadingOptions) -> bool:
        return (options.unspeakable or self._unspeakable) == "refuse"

    async def phoneme_pieces(
        self, phonemes: str, speed: float = 1.0, *, cutting: Cutting = "clip"
    ) -> AsyncGenerator[Piece | Pause, None]:
        """As `pieces`, for phonemes instead of text. Words are what stands between spaces and marks.

        Raises InvalidInput that names the phonemes that the model does not know.
        """
        turn, items = LoopShare(), list[PhonemizedSentence | Pause | Run]()
        for found in split_phonemes(re.sub(r"\s", " ", phonemes), self._vocabulary):
            items.append(found)
            await turn.give_way()
        if not items:
            problem = "have no sound in them" if phonemes.strip() else "are empty"
            raise NothingToSay(f"phonemes {problem}", field="phonemes")
        for item in _RunPacker(self._new_packer(speed, len(phonemes), cutting)).pack(items, more=False):
            await turn.give_way()
            yield item

    def _packer(self, written: WrittenScript, cutting: Cutting, apart: bool) -> Packer:
        runs = [run for run, _ in written.runs()]
        phonemes = sum(
            int(len(run.text.text) * _PHONEMES_PER_CHARACTER.get(run.delivery.language, _PHONEMES_PER_LETTER))
            for run in runs
        )
        # The fastest run leaves the least time to make what follows it.
        return self._new_packer(max((run.delivery.speed for run in runs), default=1.0), phonemes, cutting, apart)

    @property
    def speaks_early(self) -> bool:
        """Whether the first piece of a stream is cut so that it may be heard while most of it is made."""
        pace = self._pace()
        return pace is not None and pace.needs_plan and pace.speaks_early and not self._sizes.first_is_fixed

    def _new_packer(self, speed: float, phonemes: int, cutting: Cutting, apart: bool = False) -> Packer:
        """A packer for a text of about this many phonemes."""
        sizes = replace(self._sizes, shortest=1) if apart else self._sizes
        if cutting == "clip" and not sizes.first_is_fixed:
            return ClipPacker(sizes.shortest, sizes.longest)
        pace = self._pace() if cutting == "stream" and not sizes.first_is_fixed else None
        if pace is not None and pace.needs_plan:
            return PacedPacker(sizes, replace(pace, speed=speed), phonemes)
        return Packer(sizes.shortest, sizes.longest, sizes.first)

    async def _phonemize(
        self, items: Sequence[WrittenItem], language: Language, *, bulk: bool = False
    ) -> tuple[list[PhonemizedSentence | Pause | Run], str]:
        """The items with their phonemes, without those that have no sound; and the letters that G2P could not say."""
        texts = [text for item in items if not isinstance(item, Pause | Run) for text in item.texts]
        converted: Sequence[G2PResult] = ()
        if texts:
            with self._g2p_timer():
                converted = await self._g2p.convert(texts, language, bulk=bulk)
        dropped = _dropped(converted)
        results = iter(converted)
        phonemized: list[PhonemizedSentence | Pause | Run] = []
        for item in items:
            if phonemized:
                await asyncio.sleep(0)  # a long text must not hold up other requests
            if isinstance(item, Pause | Run):
                phonemized.append(item)
                continue
            sentence = item.with_phonemes(list(islice(results, len(item.texts))))
            if has_sound(sentence.phonemes):
                phonemized.append(replace(sentence, language=language))
        return phonemized, dropped


def _dropped(results: Sequence[G2PResult]) -> str:
    """The letters that G2P could not say."""
    return "".join(each for result in results for each in result.dropped if each.isalnum())


def _ended(items: list[PhonemizedSentence | Pause | Run]) -> list[PhonemizedSentence | Pause | Run]:
    """All items of a text. If it is a mere word or two, a period follows: without it the model says them weakly."""
    match items:
        case [PhonemizedSentence() as only] if (
            len(only.phonemes) <= _FEW_PHONEMES and only.phonemes[-1].isalpha() and not only.span.continues
        ):
            return [replace(only, phonemes=f"{only.phonemes}.")]
    return items


def _takes_time(parts: Script, options: ReadingOptions) -> bool:
    return len(parts) > 1 or any(takes_time(run.text.text, options) for run in script.runs(parts))


class _RunPacker:
    """Packs sentences into pieces, and gives each piece its run."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._run: Run | None = None

    def pack(self, items: Sequence[PhonemizedSentence | Pause | Run], *, more: bool) -> Iterator[Piece | Pause]:
        """The pieces that `items` complete: all of them, if there are no `more` to come."""
        for index, item in enumerate(items):
            if isinstance(item, Pause):
                yield from self.finish()
                self._packer.add_pause(item.seconds)
                yield item
            elif isinstance(item, Run):
                yield from self.finish()
                self._run = item
            else:
                pieces = self._packer.add(item)
                if not more and index == len(items) - 1:
                    *pieces, end = pieces + self._packer.finish()
                    pieces.append(replace(end, last=True))
                yield from self._of_run(pieces)

    def finish(self) -> list[Piece]:
        """The rest, when the text has ended, or when a pause or a run comes."""
        return self._of_run(self._packer.finish())

    def _of_run(self, pieces: list[Piece]) -> list[Piece]:
        return [replace(piece, run=self._run) for piece in pieces] if self._run else pieces
