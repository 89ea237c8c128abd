"""An utterance: the audio of its pieces joined, with the pauses between them and the times of its words."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from kokoro_server.audio.join import LIMITLESS, Ends, Joiner
from kokoro_server.audio.limiter import scale
from kokoro_server.audio.loudness import levelled
from kokoro_server.audio.silence import FRAME, pause_in
from kokoro_server.audio.sound import Sound
from kokoro_server.audio.stretch import Warp, stretched
from kokoro_server.batching.entry import Outcome
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio, Pcm16, Result
from kokoro_server.engine.rows import model_speed, token_starts
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.phonemes import PhonemeTiming, next_sound, sounds, symbol
from kokoro_server.text.pauses import NATURAL_PAUSES, Pause, Pauses
from kokoro_server.text.phonemized import PhonemizedWord
from kokoro_server.text.pieces import Piece
from kokoro_server.text.script import Delivery, Run

# A sound is heard before its duration frames: by 40 to 80 ms, measured on six voices. KPipeline subtracts as much.
EARLY_FRAMES = 3
LONG_SILENCE = 30 * SAMPLE_RATE  # samples, at which a pause is a segment of its own: a stream's memory stays bounded
PEAK_CEILING = float(10 ** (-1 / 20))  # of the true peaks of a voice that is brought to the level of all: -1 dB
UtteranceItem = Piece | Pause


@dataclass(frozen=True, eq=False)
class Segment:
    """The next part of an utterance. `outcome` is None where there is only silence, and for the rest of a piece whose
    beginning was a segment.
    """

    sound: Sound  # its audio is the same as the outcome's
    outcome: Outcome | None
    last: bool
    timings: Callable[[], tuple[Timing, ...]] = tuple
    sounds: Callable[[], tuple[PhonemeTiming, ...]] = tuple
    skipped: int = 0  # characters that cannot be said: in all of the text, if this is its first speech
    text_ms: float = 0.0  # that the text took until its first phonemes were there
    stands_in: bool = False  # a moment of silence, for a text with nothing to say

    @cached_property
    def words(self) -> tuple[Timing, ...]:
        """Word timings in seconds from the start of the utterance. Computed when asked for: most clients do not."""
        return self.timings()

    @cached_property
    def phonemes(self) -> tuple[PhonemeTiming, ...]:
        """The phonemes of `words`, which they fill without a gap."""
        return self.sounds()

    @property
    def audio(self) -> Audio:
        """24 kHz."""
        return self.sound.audio

    @property
    def pcm16(self) -> Pcm16 | None:
        """The audio in 16-bit samples, if the engine made them."""
        return self.sound.pcm16

    def without_audio(self) -> Segment:
        """A copy that has only the words, and what they took."""
        nothing = Sound.silence(0)
        return replace(self, sound=nothing, outcome=self.outcome and _with_audio(self.outcome, nothing.audio))

    def detached(self, wanted: bool = True) -> Segment:
        """A copy with its own memory. The engine's buffer is a whole batch's, which a slow client must not hold."""
        if not wanted or self.audio.base is None:
            return self
        sound = self.sound.copy()
        return replace(self, sound=sound, outcome=self.outcome and _with_audio(self.outcome, sound.audio))


class Utterance:
    """Joins the audio of an utterance, piece by piece, and times its words.

    `run` is that of the pieces that name none; `text_ms` is copied to the segments. Without `ends`, the clip has the
    model's own.
    """

    def __init__(
        self, run: Run | None, text_ms: float, ends: Ends | None = None, pauses: Pauses = NATURAL_PAUSES
    ) -> None:
        self._run, self._text_ms = run, text_ms
        self._joiner = Joiner(ends, pauses)
        self._samples = 0  # of audio given out so far
        self._silence: list[Sound] = []  # of pauses, to be given out with the next segment
        self._silent_samples = 0  # in it
        self.finished = False
        self._trims = ends is not None
        self._begun: _PieceTimes | None = None  # of the next piece, if its beginning has been given out

    @property
    def seconds(self) -> float:
        """Of the audio given out so far."""
        return self._samples / SAMPLE_RATE

    def run_of(self, piece: Piece) -> Run:
        run = piece.run or self._run
        assert run
        return run

    def may_begin(self, piece: Piece) -> bool:
        """Whether the beginning of this piece can be given out before its rest is there."""
        delivery = self.run_of(piece).delivery
        return self._trims and _is_plain(delivery)

    def begin(self, piece: UtteranceItem, beginning: Outcome) -> Segment | None:
        """What is new of the beginning of a piece that `add` is to be called with; and at first, its words' times.

        None if nothing is new, as when a pass that failed is tried again.
        """
        assert isinstance(piece, Piece)
        if self._begun:
            sound = self._joiner.go_on(Sound(beginning.result.audio))
            self._samples += len(sound)
            return Segment(sound, None, False) if len(sound) else None
        audio, durations = beginning.result.audio, beginning.result.durations
        trimmed = self._joiner.begin(Sound(audio), int(durations[0]) * SAMPLES_PER_FRAME)
        place = trimmed.power, trimmed.offset, trimmed.limit, self._samples
        times = _PieceTimes(piece, self.run_of(piece), durations, None, *place)
        self._begun = times
        self._samples += len(trimmed.sound)
        sound = self._after_silence(trimmed.sound)
        made = _with_audio(beginning, sound.audio)
        return Segment(sound, made, False, times.words, times.phonemes, piece.skipped, self._text_ms)

    async def add(self, unjoined: deque[UtteranceItem], outcome: Outcome) -> Segment:
        """The audio of the first piece of `unjoined`, and before it the pauses that `long_silences` has kept."""
        piece = unjoined.popleft()
        assert isinstance(piece, Piece)
        assert not self.finished
        self.finished = piece.last
        run = self.run_of(piece)
        made, warp = await _delivered(outcome.result, run.delivery)
        self._joiner.speed = run.delivery.speed
        durations = outcome.result.durations
        pad = int(durations[0]) * SAMPLES_PER_FRAME if warp is None else None
        trimmed = self._joiner.add(made, ends=piece.ends, pad=pad, last=piece.last)
        begun, self._begun = self._begun, None
        before = begun.before if begun else self._samples
        place = trimmed.power, trimmed.offset, trimmed.limit, before
        times = _PieceTimes(piece, run, durations, warp, *place, begun)
        self._samples += len(trimmed.sound)
        sound = self._after_silence(trimmed.sound)
        if begun:
            return Segment(sound, None, piece.last, times.words, times.phonemes)
        if sound.audio is not outcome.result.audio:
            outcome = _with_audio(outcome, sound.audio)
        return Segment(sound, outcome, piece.last, times.words, times.phonemes, piece.skipped, self._text_ms)

    def finish(self) -> Segment:
        return Segment(self._after_silence(self._joiner.finish()), None, last=True)

    def long_silences(self, unjoined: deque[UtteranceItem]) -> Iterator[Segment]:
        """Take the pauses at the front of `unjoined`. As often as they add up to a long silence, that is a segment."""
        while unjoined and isinstance(unjoined[0], Pause):
            pause = unjoined.popleft()
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


async def _delivered(result: Result, delivery: Delivery) -> tuple[Sound, Warp | None]:
    """The audio at its speed and level. The warp says how it was stretched, if the model spoke at its own pace."""
    if _is_plain(delivery):
        return Sound(result.audio, result.pcm16), None
    return await asyncio.to_thread(_changed, result.audio, delivery)


def _is_plain(delivery: Delivery) -> bool:
    """Whether the audio is delivered as the model makes it."""
    return model_speed(delivery.speed) == delivery.speed and delivery.gain is None and not delivery.volume


def _changed(audio: Audio, delivery: Delivery) -> tuple[Sound, Warp | None]:
    warp = None
    if (speed := model_speed(delivery.speed)) != delivery.speed:
        audio, warp = stretched(audio, speed / delivery.speed)
    if delivery.gain is not None:
        audio = levelled(audio, float(10 ** (delivery.gain / 20)), PEAK_CEILING)
    if delivery.volume:
        audio = scale(audio, delivery.volume)  # a peak that is too high is limited with the volume
    return Sound(audio), warp


@dataclass(frozen=True, eq=False)
class _PieceTimes:
    """When the words and phonemes of a piece are heard, in seconds from the start of the utterance.

    Of the beginning of a piece they are those of the words whose ends are in its audio.
    """

    piece: Piece
    run: Run
    durations: NDArray[np.int64]
    warp: Warp | None
    power: NDArray[np.float32]  # of the frames of the whole piece, or of its beginning
    offset: int  # of `Trimmed`
    limit: int
    before: int  # samples that come before those of the trimmed piece
    begun: _PieceTimes | None = None  # of words that have been given out

    def words(self) -> tuple[Timing, ...]:
        return tuple(map(self._timed, self._words))

    def phonemes(self) -> tuple[PhonemeTiming, ...]:
        begins, phonemes = self._begins, self.piece.phonemes
        return tuple(
            PhonemeTiming(
                symbol(phonemes[first:last]),
                self._seconds(begins[first]),
                self._seconds(begins[last] if last < word.phoneme_end else self._end(word)),
                index,
            )
            for index, word in enumerate(self._words)
            for first, last in sounds(phonemes, word.phoneme_start, word.phoneme_end)
        )

    @cached_property
    def _words(self) -> tuple[PhonemizedWord, ...]:
        words = self.piece.words
        if self.limit == LIMITLESS:  # the beginning of a piece
            return tuple(takewhile(self._has_known_end, words))
        return words[len(self.begun._words) :] if self.begun else words

    def _has_known_end(self, word: PhonemizedWord) -> bool:
        return not self._precedes_pause(word) or self._following(word) <= len(self.power) * FRAME

    def _precedes_pause(self, word: PhonemizedWord) -> bool:
        """Whether there may be a pause after it."""
        phonemes = self.piece.phonemes
        following = next_sound(phonemes, word.phoneme_end)
        return following == len(phonemes) or bool(phonemes[word.phoneme_end : following].strip())

    def _following(self, word: PhonemizedWord) -> int:
        """The sample at which the next word begins; the limit after the last one."""
        following = next_sound(self.piece.phonemes, word.phoneme_end)
        return self._begins[following] if following < len(self.piece.phonemes) else self.limit

    @cached_property
    def _begins(self) -> list[int]:
        """The sample at which each phoneme is heard, and at last that at which the last one has ended."""
        frames = token_starts(self.durations)[1:]  # the first entry is the pad's
        samples = np.maximum(frames - EARLY_FRAMES, 0) * SAMPLES_PER_FRAME
        heard = samples if self.warp is None else self.warp.heard_at(samples)
        begins = np.clip(heard, max(self.offset, 0), self.limit)
        return [round(float(begin)) for begin in begins]

    def _end(self, word: PhonemizedWord) -> int:
        """A word ends where the next one begins, or where a pause begins: the model gives that in part to the word."""
        following = self._following(word)
        spoken = sounds(self.piece.phonemes, word.phoneme_start, word.phoneme_end)
        if not spoken or not self._precedes_pause(word):
            return following
        start, last_sound = self._begins[word.phoneme_start], self._begins[spoken[-1][0]]
        earliest = -(-(last_sound + SAMPLES_PER_FRAME - start) // FRAME)
        power = self.power[start // FRAME : following // FRAME]
        pause = pause_in(power, earliest, ends=following == self.limit)
        return following if pause is None else min(start + pause * FRAME, following)

    def _seconds(self, sample: int) -> float:
        return round((sample - self.offset + self.before) / SAMPLE_RATE, 4)

    def _timed(self, word: PhonemizedWord) -> Timing:
        start, end = self.run.text.origin(word.start, word.end)
        return Timing(
            text=self.run.text.text[word.start : word.end],
            start=self._seconds(self._begins[word.phoneme_start]),
            end=self._seconds(self._end(word)),
            char_start=start,
            char_end=end,
            phrase=word.phrase,
        )


def _with_audio(outcome: Outcome, audio: Audio) -> Outcome:
    return replace(outcome, result=Result(audio, outcome.result.durations))
