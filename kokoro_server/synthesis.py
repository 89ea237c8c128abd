"""Text to audio: the one service object that every endpoint calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from kokoro_server.audio.captions import Timing
from kokoro_server.audio.join import Joiner
from kokoro_server.audio.sound import Sound
from kokoro_server.batching.entry import Outcome
from kokoro_server.batching.speech_queue import Job, SpeechQueue
from kokoro_server.engine import timing, vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio, Pcm16, Result, Row
from kokoro_server.engine.voices import HeldVoice, VoiceBook
from kokoro_server.errors import InvalidInput, TextTooLong
from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.text import pauses
from kokoro_server.text.options import DEFAULT_OPTIONS, ReadingOptions
from kokoro_server.text.pauses import Pause
from kokoro_server.text.pieces import Cutting, Piece
from kokoro_server.text.reader import Reader, Reading

# A sound is heard before its duration frames: by 40 to 80 ms, measured on six voices. KPipeline subtracts as much.
EARLY_FRAMES = 3
LONG_SILENCE = 30 * SAMPLE_RATE  # samples, at which a pause is a segment of its own: a stream's memory stays bounded
LONG_CLIP = 60 * SAMPLE_RATE  # samples, from which a clip is put together in a thread
Item = Piece | Pause


@dataclass(frozen=True, slots=True)
class Speech:
    """What is to be said, as text or as phonemes, and how. Without `language` it is the voice's own."""

    voice: str
    text: str | None = None
    phonemes: str | None = None
    language: str | None = None
    speed: float = 1.0
    pitch: float = 0.0  # semitones
    seed: int = 0
    reading: ReadingOptions = DEFAULT_OPTIONS

    @property
    def written(self) -> str:
        """The text that word timings refer to."""
        return self.text if self.text is not None else self.phonemes or ""


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

    def detached(self) -> Segment:
        """A copy with its own memory. The engine's buffer is a whole batch's, which a slow client must not hold."""
        if self.audio.base is None:
            return self
        sound = self.sound.copy()
        return replace(self, sound=sound, outcome=self.outcome and _with_audio(self.outcome, sound.audio))


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A whole utterance, and what it took: of several pieces, the longest wait and the largest batch."""

    sound: Sound
    voice: str
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

    async def speak(self, speech: Speech, job: Job | None = None, *, cutting: Cutting = "clip") -> Clip:
        """The whole of `speech` as one clip; all of its text or an error."""
        voice = (await self._voices.hold(speech.voice)).name
        async with aclosing(self.segments(speech, job, cutting=cutting, detached=False)) as source:
            segments = [segment async for segment in source]
        outcomes = [segment.outcome for segment in segments if segment.outcome]
        return Clip(
            sound=await _joined([segment.sound for segment in segments]),
            voice=voice,
            segments=segments,
            queue_ms=max((outcome.queue_ms for outcome in outcomes), default=0.0),
            # Pieces of one forward pass report the same time, to the last digit: a set counts each pass once.
            inference_ms=sum({outcome.inference_ms for outcome in outcomes}),
            batch_size=max((outcome.batch_size for outcome in outcomes), default=0),
        )

    async def segments(
        self, speech: Speech, job: Job | None = None, *, cutting: Cutting = "stream", detached: bool = True
    ) -> AsyncGenerator[Segment, None]:
        """The segments of `speech`, each as soon as it is made. Close the generator to abandon the rest.

        `detached`: each segment may be held for any time.
        """
        voice = await self._voices.hold(speech.voice)
        job = job or self._queue.job()
        async with self._queue.admission(job):
            items = self._items(speech, voice, cutting)
            first = await anext(items)
        spoken = deque[Item]()
        utterance = _Utterance(speech)
        if isinstance(first, Piece) and first.last:
            await items.aclose()
            spoken.append(first)
            row = self._row(first, speech, voice)
            # In one expression: a variable would keep the batch's audio alive while the reader is at this segment.
            yield _release(
                utterance.add(spoken, await self._queue.submit_only(row, voice.name, job)), detached=detached
            )
            return
        rows = self._rows(first, items, spoken, speech, voice)
        async with aclosing(self._queue.submit_job(rows, voice=voice.name, job=job)) as outcomes:
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
        self._check(speech)
        voice = await self._voices.hold(speech.voice)
        return await self._reader.reading(speech.written, _language(speech, voice.language), speech.reading)

    def _items(self, speech: Speech, voice: HeldVoice, cutting: Cutting) -> AsyncGenerator[Item, None]:
        self._check(speech)
        if speech.phonemes is not None:
            return self._reader.phoneme_pieces(speech.phonemes, speech.speed, cutting=cutting)
        return self._reader.pieces(
            speech.written,
            _language(speech, voice.language),
            speech.speed,
            cutting=cutting,
            options=speech.reading,
        )

    def language(self, speech: Speech) -> Language:
        """The language in which it is said."""
        return _language(speech, self._voices.language(speech.voice))

    def _check(self, speech: Speech) -> None:
        if len(speech.written) > self._max_text:
            raise TextTooLong(
                f"text has {len(speech.written)} characters; at most {self._max_text} are allowed (MAX_TEXT_LENGTH)",
                field="text",
            )
        field = "text" if speech.phonemes is None else "phonemes"
        if (silence := pauses.total_silence(speech.written, field)) > self._max_silence:
            raise InvalidInput(
                f"the pauses add up to {silence:g} s; at most {self._max_silence:g} s are allowed (MAX_SILENCE)",
                field=field,
            )

    async def _rows(
        self, first: Item, others: AsyncGenerator[Item, None], spoken: deque[Item], speech: Speech, voice: HeldVoice
    ) -> AsyncGenerator[Row, None]:
        """A row for each piece. The pieces, and the pauses between them, are appended to `spoken`."""
        async with aclosing(others):
            item: Item | None = first
            while item is not None:
                spoken.append(item)
                if isinstance(item, Piece):
                    yield self._row(item, speech, voice)
                item = await anext(others, None)

    def _row(self, piece: Piece, speech: Speech, voice: HeldVoice) -> Row:
        tokens = vocab.tokenize(piece.phonemes)
        return Row(tokens, voice.style(len(tokens)), speech.speed, speech.pitch, speech.seed)


class _Utterance:
    """Joins the audio of an utterance, piece by piece, and times its words."""

    def __init__(self, speech: Speech) -> None:
        self._text = speech.written
        self._joiner = Joiner(speech.speed)
        self._samples = 0  # of audio given out so far
        self._silence: list[Sound] = []  # of pauses, to be given out with the next segment
        self._silent_samples = 0  # in it
        self.finished = False

    def add(self, spoken: deque[Item], outcome: Outcome) -> Segment:
        """The audio of the next piece of `spoken`, after its `long_silences`, and what is left of the pauses before."""
        piece = spoken.popleft()
        assert isinstance(piece, Piece)
        assert not self.finished
        self.finished = piece.last
        made = Sound(outcome.result.audio, outcome.result.pcm16)
        trimmed = self._joiner.add(made, ends=piece.ends, last=piece.last)
        timings = partial(self._timings, piece, outcome.result.durations, trimmed.offset - self._samples)
        self._samples += len(trimmed.sound)
        sound = self._after_silence(trimmed.sound)
        if sound is not made:
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

    def _timings(self, piece: Piece, durations: NDArray[np.int64], offset: int) -> tuple[Timing, ...]:
        frames = timing.starts(durations)[1:]  # of each phoneme: the first entry is the pad's
        begins = np.maximum(frames - EARLY_FRAMES, 0) * SAMPLES_PER_FRAME - offset
        return tuple(
            Timing(
                text=self._text[word.start : word.end],
                start=round(float(begins[word.phoneme_start]) / SAMPLE_RATE, 4),
                end=round(float(begins[word.phoneme_end]) / SAMPLE_RATE, 4),
                char_start=word.start,
                char_end=word.end,
                phrase=word.phrase,
            )
            for word in piece.words
        )


def _language(speech: Speech, letter: str) -> Language:
    return languages.of_request(speech.language, letter)


def _release(segment: Segment, *, detached: bool) -> Segment:
    return segment.detached() if detached else segment


async def _joined(parts: list[Sound]) -> Sound:
    if len(parts) == 1 or sum(map(len, parts)) <= LONG_CLIP:
        return Sound.join(parts)
    return await asyncio.to_thread(Sound.join, parts)


def _with_audio(outcome: Outcome, audio: Audio) -> Outcome:
    return replace(outcome, result=Result(audio, outcome.result.durations))
