"""The passages of a book in order: when each chapter and each word begins, how loud it all is, and its samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kokoro_server.audio.loudness import LoudnessMeter, levelled
from kokoro_server.audio.wav import floats
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio
from kokoro_server.longform.books.book import Chapter
from kokoro_server.longform.books.options import PEAK_LIMIT
from kokoro_server.longform.books.passages import chapter_text
from kokoro_server.longform.books.plan import Plan, PlannedChapter
from kokoro_server.longform.books.trimming import MARGINS
from kokoro_server.longform.books.work_folder import Kept, WorkFolder
from kokoro_server.synthesis.captions import Timing

# Encoded, a peak may be a decibel and a half higher than it went in (64 kbit/s); peaks between samples are estimated.
HEADROOM = 2.0  # dB
CEILING = 10 ** ((PEAK_LIMIT - HEADROOM) / 20)
MAX_GAIN = 30.0  # dB; what is so quiet is no speech

AudioParts = Iterable[Audio]
OnStep = Callable[[], None]  # called after each passage; may raise, to end the work


@dataclass(frozen=True, slots=True)
class PassageAudio:
    """A passage, and how much silence comes after it."""

    key: str
    samples: int
    silence: int  # samples


@dataclass(frozen=True, slots=True)
class SpokenChapter:
    number: int  # in the book, from 0
    chapter: Chapter
    start: int  # samples, from the start of the book
    segments: tuple[PassageAudio, ...]
    words: tuple[Timing, ...]  # with seconds from the chapter's start, and places in its text

    @property
    def title(self) -> str:
        return self.chapter.title or f"Chapter {self.number + 1}"

    @property
    def text(self) -> str:
        return chapter_text(self.chapter)

    @property
    def samples(self) -> int:
        return sum(segment.samples + segment.silence for segment in self.segments)

    @property
    def end(self) -> int:
        return self.start + self.samples


@dataclass(frozen=True, slots=True)
class Recording:
    chapters: tuple[SpokenChapter, ...]  # those in which something is heard
    loudness: float  # LUFS, as it was spoken
    skipped: dict[int, int]  # characters that could not be said, by the number of their chapter

    @property
    def seconds(self) -> float:
        return sum(chapter.samples for chapter in self.chapters) / SAMPLE_RATE

    def made_up(self, gain: float, levelled: AudioParts) -> float:
        """The gain that gives back what peaks under the ceiling have cost the sound of being `levelled` with it."""
        meter = LoudnessMeter()
        for audio in levelled:
            meter.add(audio)
        lost = self.loudness + 20 * math.log10(gain) - meter.integrated
        return gain * float(10 ** (lost / 20)) if math.isfinite(lost) else gain


def gain_to(wanted: float | None, spoken: float) -> float:
    """By what samples are to be multiplied, so that speech of that loudness has another."""
    if wanted is None or not math.isfinite(spoken):
        return 1.0
    return float(10 ** (min(wanted - spoken, MAX_GAIN) / 20))


def survey(plan: Plan, keys: Sequence[str], folder: WorkFolder, step: OnStep) -> Recording:
    """`keys` are those of the plan's passages, all of which are kept."""
    meter, skipped = LoudnessMeter(), dict[int, int]()
    chapters, start, remaining = list[SpokenChapter](), 0, iter(keys)
    for planned in plan.chapters:
        segments, words, samples = list[PassageAudio](), list[Timing](), 0
        text = chapter_text(planned.chapter)
        for passage in planned.passages:
            key = next(remaining)
            kept = folder.need(key)
            skipped[planned.number] = skipped.get(planned.number, 0) + kept.skipped
            words += (_later(passage.in_chapter(word, text), samples / SAMPLE_RATE) for word in kept.words)
            samples += add(segments, key, kept, passage.gap, meter)
            step()
        if segments:
            chapters.append(_spoken(planned, start, segments, words))
            start = chapters[-1].end
    return Recording(tuple(chapters), meter.integrated, {n: count for n, count in skipped.items() if count})


def add(segments: list[PassageAudio], key: str, kept: Kept, gap: float, meter: LoudnessMeter) -> int:
    """One more passage of a chapter, and by how many samples that is longer now.

    A passage in which nothing can be said is but the gap after it.
    """
    silence = max(0, round((gap - MARGINS) * SAMPLE_RATE))
    if kept.samples:
        segments.append(PassageAudio(key, kept.samples, silence))
        meter.add(floats(kept.pcm))
        meter.add(np.zeros(silence, np.float32))
        return kept.samples + silence
    if not segments:
        return 0
    last = segments[-1]
    segments[-1] = replace(last, silence=max(last.silence, silence))
    return segments[-1].silence - last.silence


def _spoken(planned: PlannedChapter, start: int, segments: list[PassageAudio], words: list[Timing]) -> SpokenChapter:
    return SpokenChapter(planned.number, planned.chapter, start, tuple(segments), tuple(words))


def sound(segments: Iterable[PassageAudio], folder: WorkFolder, gain: float, step: OnStep) -> Iterator[Audio]:
    """The samples of a chapter, passage by passage. Each begins and ends in silence, so each is levelled alone."""
    for segment in segments:
        yield levelled(floats(folder.need(segment.key).pcm), gain, CEILING)
        yield np.zeros(segment.silence, np.float32)
        step()


def _later(word: Timing, seconds: float) -> Timing:
    return replace(word, start=word.start + seconds, end=word.end + seconds)
