"""Text to audio: the one service object that every endpoint calls."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from kokoro_server import languages
from kokoro_server.audio.sound import Sound
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.batching.tickets import Ticket
from kokoro_server.callers.current import read_by
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio, Pcm16, Row
from kokoro_server.errors import KokoroError, TextTooLong, UnknownVoice
from kokoro_server.languages import Language
from kokoro_server.observability import tracing
from kokoro_server.runtime.loop_turns import LoopTurns
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.speech import Speech, write_script
from kokoro_server.synthesis.utterance import Segment, Utterance, UtteranceItem
from kokoro_server.text import script
from kokoro_server.text.pauses import Pause
from kokoro_server.text.pieces import Cutting, Piece
from kokoro_server.text.reader import Reader, Reading
from kokoro_server.text.script import Run, Script
from kokoro_server.voices import HeldVoice, VoiceBook

__all__ = ["Clip", "Segment", "Speech", "Synthesizer"]

LONG_CLIP = 60 * SAMPLE_RATE  # samples, from which a clip is put together in a thread


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A whole utterance, and what it took: of several pieces, the longest wait and the largest batch."""

    sound: Sound
    voice: str
    script: Script  # what has been said, whatever has become of its voices since
    segments: Sequence[Segment]
    text_ms: float
    queue_ms: float
    inference_ms: float
    batch_size: int

    @property
    def words(self) -> tuple[Timing, ...]:
        return tuple(word for segment in self.segments for word in segment.words)

    @property
    def audio(self) -> Audio:
        return self.sound.audio

    @property
    def pcm16(self) -> Pcm16 | None:
        return self.sound.pcm16

    @property
    def seconds(self) -> float:
        return len(self.audio) / SAMPLE_RATE

    @property
    def skipped(self) -> int:
        """Characters that were left out, as they cannot be said."""
        return sum(segment.skipped for segment in self.segments)


class Synthesizer:
    def __init__(
        self, reader: Reader, queue: SpeechQueue, voices: VoiceBook, max_text: int, max_silence: float
    ) -> None:
        """`max_text` is in characters, `max_silence`, of all pauses of a request, in seconds."""
        self._reader = reader
        self._queue = queue
        self._voices = voices
        self._max_text = max_text
        self._max_silence = max_silence
        self._turns = LoopTurns()

    def with_voices(self, voices: VoiceBook) -> Synthesizer:
        """The same, with other voices."""
        other = copy.copy(self)
        other._voices = voices
        return other

    async def speak(self, speech: Speech, ticket: Ticket | None = None, *, cutting: Cutting = "clip") -> Clip:
        """The whole of `speech` as one clip; all of its text or an error. Bulk takes turns on the event loop."""
        work = self._speak(speech, ticket, cutting)
        return await (self._turns.paced(work) if ticket is not None and ticket.bulk else work)

    async def _speak(self, speech: Speech, ticket: Ticket | None, cutting: Cutting) -> Clip:
        voice = (await self.voice(speech)).name
        parts = list[Run | Pause]()  # of the script, filled by `segments`
        stream = self.segments(speech, ticket, cutting=cutting, detached=False, on_script=parts.extend)
        async with aclosing(stream):
            segments = [segment async for segment in stream]
        outcomes = [segment.outcome for segment in segments if segment.outcome]
        return Clip(
            sound=await _joined([segment.sound for segment in segments]),
            voice=voice,
            script=parts,
            segments=segments,
            text_ms=max(segment.text_ms for segment in segments),  # the first may be silence
            queue_ms=max((outcome.queue_ms for outcome in outcomes), default=0.0),
            # Pieces of one forward pass report the same time, to the last digit: a set counts each pass once.
            inference_ms=sum({outcome.inference_ms for outcome in outcomes}),
            batch_size=max((outcome.batch_size for outcome in outcomes), default=0),
        )

    async def segments(
        self,
        speech: Speech,
        ticket: Ticket | None = None,
        *,
        cutting: Cutting = "stream",
        detached: bool = True,
        on_script: Callable[[Script], object] = lambda _script: None,
    ) -> AsyncGenerator[Segment, None]:
        """The segments of `speech`, each as soon as it is made. Close the generator to abandon the rest.

        `on_script` is called once, with the script, before the first segment. `detached`: the caller may hold a segment
        for any time; without it a segment may keep the buffer of its whole batch alive.

        Two sides meet here. `_rows` reads pieces and pauses, appends each to `unjoined`, and makes a row of each piece
        for the queue. It runs ahead of the outcomes. When an outcome comes back, `Utterance` takes its piece, and the
        pauses before it, from the other end of `unjoined`.
        """
        first_voice = await self.voice(speech)  # an unknown voice is refused even when the queue is full
        ticket = ticket or self._queue.ticket()
        begun = time.perf_counter()
        attributes: tracing.Attributes = {"kokoro.voice": first_voice.name, "kokoro.characters": len(speech.written)}
        with tracing.step("text", attributes):
            async with self._queue.admission(ticket):  # until the first piece is read: an idle device waits for it
                on_script(parts := await self.script(speech))
                held = {first_voice.name: first_voice}
                for name in {run.delivery.voice for run in script.runs(parts)} - held.keys():
                    held[name] = await self._voices.hold(name)
                items = self._items(speech, parts, cutting, bulk=ticket.bulk)
                with _field_named(speech), self._read_in_time(ticket):
                    first = await anext(items)
        unjoined = deque[UtteranceItem]()  # pieces and pauses that have been read, but are in no segment yet
        row_voices = list[str]()  # by index of the row
        utterance = Utterance(next(script.runs(parts), None), 1000 * (time.perf_counter() - begun))
        rows = _rows(first, items, unjoined, utterance, speech.seed, held, row_voices)
        if isinstance(first, Piece) and first.last:  # the whole text is one piece
            row = await anext(rows)
            await rows.aclose()
            # In one expression: a variable would keep the batch's audio alive while the reader is at this segment.
            yield utterance.add(unjoined, await self._queue.submit_only(row, row_voices[0], ticket)).detached(detached)
            return
        async with aclosing(self._queue.submit_all(rows, voice=row_voices.__getitem__, ticket=ticket)) as outcomes:
            async for outcome in outcomes:
                for silence in utterance.long_silences(unjoined):
                    yield silence
                    await asyncio.sleep(0)  # the event loop's turn: there may be thousands
                yield utterance.add(unjoined, outcome)
        if not utterance.finished:
            for silence in utterance.long_silences(unjoined):
                yield silence
                await asyncio.sleep(0)
            yield utterance.finish()

    @contextmanager
    def _read_in_time(self, ticket: Ticket) -> Iterator[None]:
        """A request whose text cannot be read before it must have started fails then."""
        left = None if ticket.begun else ticket.first_deadline - self._queue.now()
        token = read_by.set(None if left is None else time.monotonic() + left)
        try:
            yield
        finally:
            read_by.reset(token)

    async def reading(self, speech: Speech) -> Reading:
        """The words that would be said of a text, and the rules that decide them."""
        parts = await self.script(speech)
        with _field_named(speech):
            return await self._reader.reading(parts, speech.reading)

    async def voice(self, speech: Speech) -> HeldVoice:
        """The voice that speaks, or begins to."""
        try:
            return await self._voices.hold(speech.first_voice)
        except KokoroError as error:
            if speech.turns and speech.turns[0].voice:
                error.field = "turns.0.voice"
            raise

    def language(self, speech: Speech) -> Language:
        """The language in which it is said, or begun."""
        language = speech.turns[0].language if speech.turns else None
        return languages.of_request(language or speech.language, self._voices.language(speech.first_voice))

    async def script(self, speech: Speech) -> Script:
        """The runs and pauses of `speech`. Raises an error for too much text or silence, and for wrong markup."""
        if len(speech.written) > self._max_text:
            raise TextTooLong(
                f"text has {len(speech.written)} characters; at most {self._max_text} are allowed (MAX_TEXT_LENGTH)",
                field="text",
            )
        try:
            parts = await write_script(speech, self._voices.now)
        except UnknownVoice:
            await self._voices.refresh()  # another process may have made it just now
            parts = await write_script(speech, self._voices.now)
        if len(parts) > 1:
            await asyncio.to_thread(script.check, parts, self._max_silence, speech.subject)
        else:
            script.check(parts, self._max_silence, speech.subject)
        return parts

    def _items(
        self, speech: Speech, parts: Script, cutting: Cutting, *, bulk: bool
    ) -> AsyncGenerator[UtteranceItem, None]:
        if speech.phonemes is not None:
            return self._reader.phoneme_pieces(speech.phonemes, speech.speed, cutting=cutting)
        return self._reader.script_pieces(parts, cutting=cutting, options=speech.reading, bulk=bulk)


async def _rows(
    first: UtteranceItem,
    rest: AsyncGenerator[UtteranceItem, None],
    unjoined: deque[UtteranceItem],
    utterance: Utterance,
    seed: int,
    held: Mapping[str, HeldVoice],
    row_voices: list[str],
) -> AsyncGenerator[Row, None]:
    """Yields a row for each piece. Appends its voice to `row_voices`, and each piece and pause to `unjoined`."""
    async with aclosing(rest):
        item: UtteranceItem | None = first
        while item is not None:
            unjoined.append(item)
            if isinstance(item, Piece):
                delivery = utterance.run_of(item).delivery
                row_voices.append(delivery.voice)
                tokens = vocab.tokenize(item.phonemes)
                yield Row(tokens, held[delivery.voice].style(len(tokens)), delivery.speed, delivery.pitch, seed)
            item = await anext(rest, None)


@contextmanager
def _field_named(speech: Speech) -> Iterator[None]:
    """An error about the text names the field that has it."""
    try:
        yield
    except KokoroError as error:
        if error.field == "text":
            error.field = speech.subject
        raise


async def _joined(parts: list[Sound]) -> Sound:
    if len(parts) == 1 or sum(map(len, parts)) <= LONG_CLIP:
        return Sound.join(parts)
    return await asyncio.to_thread(Sound.join, parts)
