"""Text to audio: the one service object that every endpoint calls."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace

from kokoro_server.batching.beginnings import Beginnings
from kokoro_server.batching.entry import Outcome
from kokoro_server.batching.speech_queue import TICKET_BATCHES, SpeechQueue
from kokoro_server.batching.tickets import Playback, Ticket
from kokoro_server.callers.current import read_by
from kokoro_server.engine.protocol import SAMPLE_RATE, Row
from kokoro_server.engine.rows import model_speed
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import NothingToSay
from kokoro_server.languages import Language
from kokoro_server.observability import tracing
from kokoro_server.runtime.loop_turns import LoopTurns
from kokoro_server.synthesis.auto_language import asks_for_auto
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.clip_memory import KEPT_SECONDS, ClipMemory, CollectedAudio, Overflow
from kokoro_server.synthesis.preparation import STREAM_CLIPS, Preparation, Prepared, SpeechLimits, field_named, too_long
from kokoro_server.synthesis.speech import ModelText, Speech, without_foreign_default
from kokoro_server.synthesis.utterance import Segment, Utterance, UtteranceItem
from kokoro_server.text import script
from kokoro_server.text.pauses import NATURAL_PAUSES
from kokoro_server.text.pieces import Cutting, Piece
from kokoro_server.text.reader import Reader, Reading
from kokoro_server.text.script import Script
from kokoro_server.voices import HeldVoice, VoiceBook

MOMENT_OF_SILENCE = "[pause:0.3s]"
LONGEST_PIECE = 30.0  # seconds at speed 1
MOST_MISTAKEN = 2.0  # audio that is longer than allowed by this factor is broken off: its prediction was far too low


ChooseModel = Callable[[Speech], "tuple[Synthesizer, Speech] | None"]  # None: the server's own model


class Synthesizer:
    def __init__(
        self,
        reader: Reader,
        queue: SpeechQueue,
        voices: VoiceBook,
        limits: SpeechLimits,
        memory: ClipMemory,
        pauses: Mapping[str, float] | None = None,
        model: ModelText | None = None,
    ) -> None:
        """`pauses` are those of the settings, by the names of `Pauses`."""
        self._reader = reader
        self._queue = queue
        self._voices = voices
        self._memory = memory
        self._turns = LoopTurns()
        self._model = model or ModelText()
        self._preparation = Preparation(voices, limits, pauses or {}, self._model)
        self._choose: ChooseModel = lambda _speech: None

    def attach(self, choose: ChooseModel) -> None:
        """Lets other models speak what is theirs."""
        self._choose = choose

    def _chosen(self, speech: Speech) -> tuple[Synthesizer, Speech]:
        """The synthesizer of the model that speaks, and the speech with a voice of that model."""
        chosen = self._choose(speech)
        if chosen is None and self._voices.now.models and asks_for_auto(speech):
            # DEFAULT_VOICE may name a model for the language of the text.
            chosen = self._choose(self._preparation.settled(speech))
        other, speech = chosen or (self, speech)
        return other, without_foreign_default(speech, other._model.languages)

    def full_name(self, voice: str, model: str | None) -> str:
        """The name of a voice with that of the model, if a field of the request names one of MODELS_PATH.

        Raises UnknownVoice if the model does not have it.
        """
        return self._chosen(Speech(voice, "", model=model))[1].first_voice

    def with_voices(self, voices: VoiceBook) -> Synthesizer:
        """The same, with other voices."""
        other = copy.copy(self)
        other._voices = voices
        other._preparation = self._preparation.with_voices(voices)
        return other

    async def speak(
        self,
        speech: Speech,
        ticket: Ticket | None = None,
        *,
        cutting: Cutting = "clip",
        overflow: Overflow | None = None,
    ) -> Clip:
        """The whole of `speech` as one clip; all of its text or an error. Bulk takes turns on the event loop.

        With `overflow`, a clip of more than a minute is not kept in memory: its audio is written there as it is made.
        Raises ClipTooLong, before anything is made, if its audio is predicted to be longer than a clip may be.
        """
        other, speech = self._chosen(speech)
        if other is not self:
            return await other.speak(speech, ticket, cutting=cutting, overflow=overflow)
        work = self._speak(speech, ticket or self._queue.ticket(), cutting, overflow)
        return await (self._turns.paced(work) if ticket is not None and ticket.bulk else work)

    async def _speak(self, speech: Speech, ticket: Ticket, cutting: Cutting, overflow: Overflow | None) -> Clip:
        prepared = await self._preparation.prepare(speech)
        collected = CollectedAudio(overflow)
        deadline = self._queue.later_deadline() if ticket.begun else ticket.first_deadline
        patience = deadline.admission - self._queue.now()
        async with self._memory.held(self._held_seconds(prepared, overflow), ticket.caller, patience):
            stream = self._segments(speech, prepared, ticket, cutting, detached=False)
            async with aclosing(stream):
                async for segment in stream:
                    await collected.add(segment)
            sound = await collected.joined()
        segments = collected.segments
        outcomes = [segment.outcome for segment in segments if segment.outcome]
        return Clip(
            sound=sound,
            samples=collected.samples,
            voice=prepared.voice.name,
            script=prepared.parts,
            segments=segments,
            text_ms=max(segment.text_ms for segment in segments),  # the first may be silence
            queue_ms=max((outcome.queue_ms for outcome in outcomes), default=0.0),
            # Pieces of one forward pass report the same time, to the last digit: a set counts each pass once.
            inference_ms=sum({outcome.inference_ms for outcome in outcomes}),
            batch_size=max((outcome.batch_size for outcome in outcomes), default=0),
        )

    def segments(
        self,
        speech: Speech,
        ticket: Ticket | None = None,
        *,
        cutting: Cutting = "stream",
        detached: bool = True,
    ) -> AsyncGenerator[Segment, None]:
        """The segments of `speech`, each as soon as it is made. Close the generator to abandon the rest.

        `detached`: the caller may hold a segment for any time; without it a segment may keep the buffer of its whole
        batch alive.
        """
        other, speech = self._chosen(speech)
        if other is not self:
            return other.segments(speech, ticket, cutting=cutting, detached=detached)
        ticket = ticket or self._queue.ticket()
        if self._queue.real_time_factor() is not None:  # an engine that may be slow: only there do pieces wait AHEAD
            ticket.playback = Playback()
        return self._segments(speech, None, ticket, cutting, detached=detached)

    async def _segments(
        self, speech: Speech, prepared: Prepared | None, ticket: Ticket, cutting: Cutting, *, detached: bool
    ) -> AsyncGenerator[Segment, None]:
        """Raises NothingToSay before the first segment, unless the speech may be silent."""
        try:
            async with aclosing(self._spoken(speech, prepared, ticket, cutting, detached=detached)) as segments:
                async for segment in segments:
                    yield segment
        except NothingToSay as nothing:
            if not speech.may_be_silent:
                raise
            silence = replace(speech, text=MOMENT_OF_SILENCE, phonemes=None, turns=(), ssml=False, may_be_silent=False)
            async with aclosing(self._spoken(silence, None, ticket, cutting, detached=detached)) as segments:
                async for segment in segments:
                    yield replace(segment, skipped=nothing.skipped, stands_in=True)

    async def _spoken(
        self, speech: Speech, prepared: Prepared | None, ticket: Ticket, cutting: Cutting, *, detached: bool
    ) -> AsyncGenerator[Segment, None]:
        """Two sides meet here. `_rows` reads pieces and pauses, appends each to `unjoined`, and makes a row of each
        piece for the queue. It runs ahead of the outcomes. When an outcome comes back, `Utterance` takes its piece, and
        the pauses before it, from the other end of `unjoined`.
        """
        if prepared is None:
            prepared = await self._preparation.prepare(speech, STREAM_CLIPS)
        first_voice, parts = prepared.voice, prepared.parts
        begun = time.perf_counter()
        attributes: tracing.Attributes = {"kokoro.voice": first_voice.name, "kokoro.characters": len(speech.written)}
        with tracing.step("text", attributes):
            async with self._queue.admission(ticket):  # until the first piece is read: an idle device waits for it
                held = {first_voice.name: first_voice}
                for name in {run.delivery.voice for run in script.runs(parts)} - held.keys():
                    held[name] = await self._voices.hold(name)
                items = self._items(speech, parts, cutting, bulk=ticket.bulk)
                with field_named(speech), self._read_in_time(ticket):
                    first = await anext(items)
        unjoined = deque[UtteranceItem]()  # pieces and pauses that have been read, but are in no segment yet
        row_voices = list[str]()  # by index of the row
        text_ms = prepared.text_ms + 1000 * (time.perf_counter() - begun)
        pauses = replace(NATURAL_PAUSES, **self._preparation.pauses(speech))
        utterance = Utterance(next(script.runs(parts), None), text_ms, speech.ends(pauses), pauses)
        rows = _rows(first, items, unjoined, utterance, speech.seed, held, row_voices, self._model.vocabulary)
        early: Beginnings[Outcome] | None = None
        streamed = ticket.playback is not None and self._reader.speaks_early
        if streamed and isinstance(first, Piece) and utterance.may_begin(first):
            early = ticket.early = Beginnings[Outcome]()
        elif isinstance(first, Piece) and first.last:  # the whole text is one piece
            row = await anext(rows)
            await rows.aclose()
            # No variable holds the outcome: it would keep the batch's audio alive while the reader is at this segment.
            adding = utterance.add(unjoined, await self._queue.submit_only(row, row_voices[0], ticket))
            yield (await adding).detached(detached)
            return
        outcomes = self._queue.submit_all(rows, voice=row_voices.__getitem__, ticket=ticket)
        if early is not None:
            outcomes = early.before(outcomes)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                if not outcome.result.whole:
                    if beginning := utterance.begin(unjoined[0], outcome):
                        yield self._given(ticket, beginning)
                    continue
                for silence in utterance.long_silences(unjoined):
                    yield self._given(ticket, silence)
                    await asyncio.sleep(0)  # the event loop's turn: there may be thousands
                yield self._given(ticket, await utterance.add(unjoined, outcome))
                if utterance.seconds > MOST_MISTAKEN * prepared.allowed:
                    raise too_long(speech, utterance.seconds, prepared.allowed)
        if not utterance.finished:
            for silence in utterance.long_silences(unjoined):
                yield silence
                await asyncio.sleep(0)
            end = utterance.finish()
            if not (utterance.seconds or len(end.sound)):  # a file without a sample is no file in most formats
                raise NothingToSay(f"{speech.subject} has neither speech nor a pause that lasts", field=speech.subject)
            yield end

    def _given(self, ticket: Ticket, segment: Segment) -> Segment:
        """Counts a segment that goes to the listener of a stream."""
        if ticket.playback is not None:
            seconds, piece = len(segment.audio) / SAMPLE_RATE, segment.outcome is not None
            ticket.playback.add(seconds, self._queue.now(), piece=piece)
        return segment

    @contextmanager
    def _read_in_time(self, ticket: Ticket) -> Iterator[None]:
        """A request whose text cannot be read before it must have started fails then."""
        left = None if ticket.begun else ticket.first_deadline.admission - self._queue.now()
        token = read_by.set(None if left is None else time.monotonic() + left)
        try:
            yield
        finally:
            read_by.reset(token)

    async def reading(self, speech: Speech) -> Reading:
        """The words that would be said of a text, and the rules that decide them."""
        other, speech = self._chosen(speech)
        parts = await other._preparation.script(other._preparation.settled(speech))
        with field_named(speech):
            return await other._reader.reading(parts, speech.reading)

    async def voice(self, speech: Speech) -> HeldVoice:
        """The voice that speaks, or begins to."""
        other, speech = self._chosen(speech)
        return await other._preparation.voice(speech)

    def language(self, speech: Speech) -> Language:
        """The language in which it is said, or begun."""
        other, speech = self._chosen(speech)
        return other._preparation.language(speech)

    async def script(self, speech: Speech) -> Script:
        """The runs and pauses of `speech`. Raises an error for too much text or silence, and for wrong markup."""
        other, speech = self._chosen(speech)
        return await other._preparation.script(speech)

    def _held_seconds(self, prepared: Prepared, overflow: Overflow | None) -> float:
        """The seconds of audio that a clip has in memory at once, as predicted."""
        if overflow is None or overflow.in_memory or prepared.seconds <= KEPT_SECONDS:
            return prepared.seconds
        slowest = min((run.delivery.speed for run in script.runs(prepared.parts)), default=1.0)
        ahead = TICKET_BATCHES * self._queue.max_rows * LONGEST_PIECE / slowest
        return min(prepared.seconds, KEPT_SECONDS + ahead)

    def _items(
        self, speech: Speech, parts: Script, cutting: Cutting, *, bulk: bool
    ) -> AsyncGenerator[UtteranceItem, None]:
        if speech.phonemes is not None:
            return self._reader.phoneme_pieces(speech.phonemes, speech.speed, cutting=cutting)
        apart = "sentence" in self._preparation.pauses(speech)
        return self._reader.script_pieces(parts, cutting=cutting, options=speech.reading, bulk=bulk, apart=apart)


async def _rows(
    first: UtteranceItem,
    rest: AsyncGenerator[UtteranceItem, None],
    unjoined: deque[UtteranceItem],
    utterance: Utterance,
    seed: int,
    held: Mapping[str, HeldVoice],
    row_voices: list[str],
    vocabulary: ModelVocabulary,
) -> AsyncGenerator[Row, None]:
    """Yields a row for each piece. Appends its voice to `row_voices`, and each piece and pause to `unjoined`."""
    async with aclosing(rest):
        item: UtteranceItem | None = first
        while item is not None:
            unjoined.append(item)
            if isinstance(item, Piece):
                delivery = utterance.run_of(item).delivery
                row_voices.append(delivery.voice)
                tokens = vocabulary.tokenize(item.phonemes)
                style = held[delivery.voice].style(len(tokens))
                yield Row(tokens, style, model_speed(delivery.speed), delivery.pitch, seed)
            item = await anext(rest, None)
