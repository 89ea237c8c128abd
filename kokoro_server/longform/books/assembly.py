"""The passages of a book in order: start times of chapters and words, loudness, and samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kokoro_server.audio.join import faded_in, faded_out, speech_bounds
from kokoro_server.audio.loudness import LoudnessMeter, levelled
from kokoro_server.audio.wav import floats
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio
from kokoro_server.longform.books.book import Chapter
from kokoro_server.longform.books.options import PEAK_LIMIT
from kokoro_server.longform.books.passages import chapter_text
from kokoro_server.longform.books.plan import Plan
from kokoro_server.longform.books.work_folder import Kept, WorkFolder
from kokoro_server.synthesis.captions import Timing, later

# Encoding at 64 kbit/s may raise a peak by a decibel and a half; peaks between samples are estimated.
HEADROOM = 2.0  # dB
CEILING = 10 ** ((PEAK_LIMIT - HEADROOM) / 20)
LEAD = round(0.040 * SAMPLE_RATE)  # samples kept before speech, so the most between a chapter mark and the first word
TAIL = round(0.050 * SAMPLE_RATE)  # samples kept after speech
MARGINS = (LEAD + TAIL) / SAMPLE_RATE  # seconds of a gap that the passages have already
MAX_GAIN = 30.0  # dB; anything that quiet is no speech

AudioParts = Iterable[Audio]
OnStep = Callable[[], None]  # called after each passage; may raise to end the work


@dataclass(frozen=True, slots=True)
class PassageAudio:
    """A passage and the silence after it, in samples."""

    key: str
    samples: int
    silence: int


@dataclass(frozen=True, slots=True)
class SpokenChapter:
    number: int  # in the book, from 0
    chapter: Chapter
    start: int  # samples, from the start of the book
    segments: tuple[PassageAudio, ...]
    words: tuple[Timing, ...]  # times from the chapter's start, places in its text

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
    chapters: tuple[SpokenChapter, ...]  # without silent ones
    loudness: float  # LUFS, before levelling
    skipped: dict[int, int]  # characters that cannot be spoken, by chapter

    @property
    def seconds(self) -> float:
        return sum(chapter.samples for chapter in self.chapters) / SAMPLE_RATE

    def made_up(self, gain: float, levelled: AudioParts) -> float:
        """The gain that makes up for the loudness that limiting its peaks has cost the `levelled` sound."""
        meter = LoudnessMeter()
        for audio in levelled:
            meter.add(audio)
        lost = self.loudness + 20 * math.log10(gain) - meter.integrated
        return gain * float(10 ** (lost / 20)) if math.isfinite(lost) else gain


def trimmed(pcm: bytes, words: Sequence[Timing]) -> tuple[bytes, list[Timing]]:
    """16-bit samples without the silence at their ends, and their words with shifted times."""
    samples: Audio = np.frombuffer(pcm, "<i2").astype(np.float32)
    begin, end = speech_bounds(samples)
    first, last = max(0, begin - LEAD), min(len(samples), end + TAIL)
    kept = faded_out(faded_in(samples[first:last]))
    shift, length = first / SAMPLE_RATE, len(kept) / SAMPLE_RATE
    moved = [
        replace(word, start=min(max(word.start - shift, 0.0), length), end=min(max(word.end - shift, 0.0), length))
        for word in words
    ]
    if moved:  # the start of the sound is more exact than word times, which are off by a frame or two
        moved[0] = replace(moved[0], start=min((begin - first) / SAMPLE_RATE, moved[0].end))
    return np.rint(kept).astype("<i2").tobytes(), moved


def gain_to(wanted: float | None, spoken: float) -> float:
    """The factor for samples of loudness `spoken` that gives them loudness `wanted`."""
    if wanted is None or not math.isfinite(spoken):
        return 1.0
    return float(10 ** (min(wanted - spoken, MAX_GAIN) / 20))


def survey(plan: Plan, keys: Sequence[str], folder: WorkFolder, step: OnStep) -> Recording:
    """Measure the kept passages. `keys` are those of all passages of the plan."""
    meter, skipped = LoudnessMeter(), dict[int, int]()
    chapters, start, remaining = list[SpokenChapter](), 0, iter(keys)
    for planned in plan.chapters:
        segments, words, samples = list[PassageAudio](), list[Timing](), 0
        text = chapter_text(planned.chapter)
        for passage in planned.passages:
            key = next(remaining)
            kept = folder.need(key)
            skipped[planned.number] = skipped.get(planned.number, 0) + kept.skipped
            words += (later(passage.in_chapter(word, text), samples / SAMPLE_RATE) for word in kept.words)
            samples += add(segments, key, kept, passage.gap, meter)
            step()
        if segments:
            chapters.append(SpokenChapter(planned.number, planned.chapter, start, tuple(segments), tuple(words)))
            start = chapters[-1].end
    return Recording(tuple(chapters), meter.integrated, {n: count for n, count in skipped.items() if count})


def add(segments: list[PassageAudio], key: str, kept: Kept, gap: float, meter: LoudnessMeter) -> int:
    """Append a passage to a chapter and return by how many samples that grows. A silent one is only its gap."""
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


def sound(segments: Iterable[PassageAudio], folder: WorkFolder, gain: float, step: OnStep) -> Iterator[Audio]:
    """The samples of a chapter. Passages begin and end in silence, so each is levelled by itself."""
    for segment in segments:
        yield levelled(floats(folder.need(segment.key).pcm), gain, CEILING)
        yield np.zeros(segment.silence, np.float32)
        step()
