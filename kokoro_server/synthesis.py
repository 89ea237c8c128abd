"""Text to audio: the one service object that every endpoint calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from kokoro_server import tracing
from kokoro_server.audio.captions import Timing
from kokoro_server.audio.join import Joiner
from kokoro_server.audio.limiter import scale
from kokoro_server.audio.sound import Sound
from kokoro_server.batching.entry import Outcome
from kokoro_server.batching.speech_queue import Job, SpeechQueue
from kokoro_server.engine import timing, vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio, Pcm16, Result, Row
from kokoro_server.engine.voices import HeldVoice, VoiceBook
from kokoro_server.errors import KokoroError, TextTooLong, UnknownVoice
from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.loop_turns import LoopTurns
from kokoro_server.speech import Speech, write_script
from kokoro_server.text import script
from kokoro_server.text.pauses import Pause
from kokoro_server.text.phonemized import Word
from kokoro_server.text.pieces import Cutting, Piece
from kokoro_server.text.reader import Reader, Reading
from kokoro_server.text.script import Run, Script

__all__ = ["Clip", "Segment", "Speech", "Synthesizer"]

# A sound is heard before its duration frames: by 40 to 80 ms, measured on six voices. KPipeline subtracts as much.
EARLY_FRAMES = 3
LONG_SILENCE = 30 * SAMPLE_RATE  # samples, at which a pause is a segment of its own: a stream's memory stays bounded
LONG_CLIP = 60 * SAMPLE_RATE  # samples, from which a clip is put together in a thread
Item = Piece | Pause


@dataclass(frozen=True, eq=False)
class Segment:
    """The next part of an utterance. `outcome` is None where there is only silence."""

    sound: Sound  # its audio is the same as the outcome's
    outcome: Outcome | None
    last: bool
    timings: Callable[[], tuple[Timing, ...]] = tuple
    skipped: int = 0  # characters that cannot be said: in all of the text, if this is its first speech

    @cached_property
    def words(self) -> tuple[Timing, ...]:
        """Word timings in seconds from the start of the utterance. Computed when asked for: most clients do not."""
        return self.timings()

    @property
    def audio(self) -> Audio:
        """24 kHz."""
        return self.sound.audio

    @property
    def pcm16(self) -> Pcm16 | None:
        """The audio in 16-bit samples, if the engine made them."""
        return self.sound.pcm16

    def detached(self, wanted: bool = True) -> Segment:
        """A copy with its own memory. The engine's buffer is a whole batch's, which a slow client must not hold."""
        if not wanted or self.audio.base is None:
            return self
        sound = self.sound.copy()
        return replace(self, sound=sound, outcome=self.outcome and _with_audio(self.outcome, sound.audio))


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A whole utterance, and what it took: of several pieces, the longest wait and the largest batch."""

    sound: Sound
    voice: str
    script: Script  # what has been said, whatever has become of its voices since
    segments: Sequence[Segment]
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

    async def speak(self, speech: Speech, job: Job | None = None, *, cutting: Cutting = "clip") -> Clip:
        """The whole of `speech` as one clip; all of its text or an error. Bulk takes turns on the event loop."""
        work = self._speak(speech, job, cutting)
        return await (self._turns.paced(work) if job is not None and job.bulk else work)

    async def _speak(self, speech: Speech, job: Job | None, cutting: Cutting) -> Clip:
        voice = (await self.voice(speech)).name
        said = list[Run | Pause]()
        async with aclosing(self.segments(speech, job, cutting=cutting, detached=False, on_script=said.extend)) as made:
            segments = [segment async for segment in made]
        outcomes = [segment.outcome for segment in segments if segment.outcome]
        return Clip(
            sound=await _joined([segment.sound for segment in segments]),
            voice=voice,
            script=said,
            segments=segments,
            queue_ms=max((outcome.queue_ms for outcome in outcomes), default=0.0),
            # Pieces of one forward pass report the same time, to the last digit: a set counts each pass once.
            inference_ms=sum({outcome.inference_ms for outcome in outcomes}),
            batch_size=max((outcome.batch_size for outcome in outcomes), default=0),
        )

    async def segments(
        self,
        speech: Speech,
        job: Job | None = None,
        *,
        cutting: Cutting = "stream",
        detached: bool = True,
        on_script: Callable[[Script], object] = lambda _script: None,
    ) -> AsyncGenerator[Segment, None]:
        """The segments of `speech`, each as soon as it is made. Close the generator to abandon the rest.

        `detached`: each segment may be held for any time.
        """
        first_voice = await self.voice(speech)  # one that there is not is told even when the queue is full
        job = job or self._queue.job()
        said: tracing.Attributes = {"kokoro.voice": first_voice.name, "kokoro.characters": len(speech.written)}
        with tracing.step("text", said):
            async with self._queue.admission(job):
                on_script(parts := await self.script(speech))
                held = {first_voice.name: first_voice}
                for name in {run.manner.voice for run in script.runs(parts)} - held.keys():
                    held[name] = await self._voices.hold(name)
                items = self._items(speech, parts, cutting, bulk=job.bulk)
                with _field_named(speech):
                    first = await anext(items)
        spoken, voices = deque[Item](), list[str]()
        utterance = _Utterance(next(script.runs(parts), None))
        rows = _rows(first, items, spoken, utterance, speech.seed, held, voices)
        if isinstance(first, Piece) and first.last:
            row = await anext(rows)
            await rows.aclose()
            # In one expression: a variable would keep the batch's audio alive while the reader is at this segment.
            yield utterance.add(spoken, await self._queue.submit_only(row, voices[0], job)).detached(detached)
            return
        async with aclosing(self._queue.submit_job(rows, voice=voices.__getitem__, job=job)) as outcomes:
            async for outcome in outcomes:
                for silence in utterance.long_silences(spoken):
                    yield silence
                    await asyncio.sleep(0)  # the event loop's turn: there may be thousands
                yield utterance.add(spoken, outcome)
        if not utterance.finished:
            for silence in utterance.long_silences(spoken):
                yield silence
                await asyncio.sleep(0)
            yield utterance.finish()

    async def reading(self, speech: Speech) -> Reading:
        """What would be said of a text, and why."""
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
        """What is said, by whom and how. Raises an error for more than is allowed, and for markup that is wrong."""
        if len(speech.written) > self._max_text:
            raise TextTooLong(
                f"text has {len(speech.written)} characters; at most {self._max_text} are allowed (MAX_TEXT_LENGTH)",
                field="text",
            )
        try:
            parts = await write_script(speech, self._voices.now)
        except UnknownVoice:
            await self._voices.refresh()  # it may have been made by another process just now
            parts = await write_script(speech, self._voices.now)
        if len(parts) > 1:
            await asyncio.to_thread(script.check, parts, self._max_silence, speech.subject)
        else:
            script.check(parts, self._max_silence, speech.subject)
        return parts

    def _items(self, speech: Speech, parts: Script, cutting: Cutting, *, bulk: bool) -> AsyncGenerator[Item, None]:
        if speech.phonemes is not None:
            return self._reader.phoneme_pieces(speech.phonemes, speech.speed, cutting=cutting)
        return self._reader.script_pieces(parts, cutting=cutting, options=speech.reading, bulk=bulk)


class _Utterance:
    """Joins the audio of an utterance, piece by piece, and times its words.

    `run` is that of the pieces that name none.
    """

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._joiner = Joiner()
        self._samples = 0  # of audio given out so far
        self._silence: list[Sound] = []  # of pauses, to be given out with the next segment
        self._silent_samples = 0  # in it
        self.finished = False

    def run_of(self, piece: Piece) -> Run:
        run = piece.run or self._run
        assert run
        return run

    def add(self, spoken: deque[Item], outcome: Outcome) -> Segment:
        """The audio of the next piece of `spoken`, after its `long_silences`, and what is left of the pauses before."""
        piece = spoken.popleft()
        assert isinstance(piece, Piece)
        assert not self.finished
        self.finished = piece.last
        run = self.run_of(piece)
        made = Sound(outcome.result.audio, outcome.result.pcm16)
        if run.manner.volume:
            made = Sound(scale(made.audio, run.manner.volume))  # a peak that is too high is limited with the volume
        self._joiner.speed = run.manner.speed
        trimmed = self._joiner.add(made, ends=piece.ends, last=piece.last)
        timings = partial(_timings, piece, run, outcome.result.durations, trimmed.offset - self._samples)
        self._samples += len(trimmed.sound)
        sound = self._after_silence(trimmed.sound)
        if sound.audio is not outcome.result.audio:
            outcome = _with_audio(outcome, sound.audio)
        return Segment(sound, outcome, piece.last, timings, piece.skipped)

    def finish(self) -> Segment:
        return Segment(self._after_silence(self._joiner.finish()), None, last=True)

    def long_silences(self, spoken: deque[Item]) -> Iterator[Segment]:
        """Take the pauses at the front of `spoken`. As often as they add up to a long silence, that is a segment."""
        while spoken and isinstance(spoken[0], Pause):
            pause = spoken.popleft()
            assert isinstance(pause, Pause)
            silence = self._joiner.pause(pause.seconds)
            self._silence.append(silence)
            self._samples += len(silence)
            self._silent_samples += len(silence)
            if self._silent_samples >= LONG_SILENCE:
                yield Segment(self._after_silence(), None, last=False)

    def _after_silence(self, *sound: Sound) -> Sound:
        parts = [*self._silence, *sound]
        self._silence.clear()
        self._silent_samples = 0
        return Sound.join(parts)


async def _rows(
    first: Item,
    others: AsyncGenerator[Item, None],
    spoken: deque[Item],
    utterance: _Utterance,
    seed: int,
    held: Mapping[str, HeldVoice],
    voices: list[str],
) -> AsyncGenerator[Row, None]:
    """A row for each piece; its voice is appended to `voices`, and pieces and pauses, in order, to `spoken`."""
    async with aclosing(others):
        item: Item | None = first
        while item is not None:
            spoken.append(item)
            if isinstance(item, Piece):
                manner = utterance.run_of(item).manner
                voices.append(manner.voice)
                tokens = vocab.tokenize(item.phonemes)
                yield Row(tokens, held[manner.voice].style(len(tokens)), manner.speed, manner.pitch, seed)
            item = await anext(others, None)


def _timings(piece: Piece, run: Run, durations: NDArray[np.int64], offset: int) -> tuple[Timing, ...]:
    frames = timing.starts(durations)[1:]  # of each phoneme: the first entry is the pad's
    begins = np.maximum(frames - EARLY_FRAMES, 0) * SAMPLES_PER_FRAME - offset

    def timed(word: Word) -> Timing:
        start, end = run.text.origin(word.start, word.end)
        return Timing(
            text=run.text.text[word.start : word.end],
            start=round(float(begins[word.phoneme_start]) / SAMPLE_RATE, 4),
            end=round(float(begins[word.phoneme_end]) / SAMPLE_RATE, 4),
            char_start=start,
            char_end=end,
            phrase=word.phrase,
        )

    return tuple(map(timed, piece.words))


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


def _with_audio(outcome: Outcome, audio: Audio) -> Outcome:
    return replace(outcome, result=Result(audio, outcome.result.durations))
