"""Makes an audiobook: speaks passage by passage, keeps each one, then assembles the files.

Work that a kill or a full disk interrupts goes on from there when it is started again, and ends in the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kokoro_server.audio.encode import Output
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import NothingToSay
from kokoro_server.longform.books.assembly import AudioParts, Recording, SpokenChapter, gain_to, sound, survey
from kokoro_server.longform.books.audio_files import book_tags, chapter_name, write_audio
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.containers.mp4 import COVER_TYPES
from kokoro_server.longform.books.containers.tags import BookTags
from kokoro_server.longform.books.options import BookFiles, Options
from kokoro_server.longform.books.plan import Plan, make_plan
from kokoro_server.longform.books.read_along import write_read_along
from kokoro_server.longform.books.speaking import BookProgress, Narration, OnBookProgress, Phase
from kokoro_server.longform.books.subtitles import write_subtitles
from kokoro_server.longform.books.work_folder import WorkFolder, check_writable, new_file, os_errors
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech_backend import SpeechBackend

T = TypeVar("T")


class Stopped(Exception):
    """The caller no longer wants the work of this thread."""


@dataclass(frozen=True, slots=True)
class BookResult:
    seconds: float  # of audio
    chapters: tuple[tuple[str, float], ...]  # titles and starts in seconds
    numbers: tuple[int, ...]  # of the same chapters, from 0
    files: tuple[Path, ...]
    notes: tuple[str, ...]  # for the user
    spoken: int  # passages of this run
    kept: int  # passages of earlier runs


async def planned(book: Book, options: Options, backend: SpeechBackend) -> Plan:
    """Voices that are not named are those of the server that speaks."""
    speech_defaults.set(await backend.defaults())
    return await asyncio.to_thread(make_plan, book, options, await backend.voices())


async def produce(
    book: Book,
    options: Options,
    outputs: BookFiles,
    backend: SpeechBackend,
    folder: Path,
    report: OnBookProgress = lambda _progress: None,
    *,
    keep_work: bool = False,
) -> BookResult:
    """Make the files of `outputs`. `folder` keeps the passages, and is removed in the end unless `keep_work`.

    May be cancelled at any time, and keeps the passages spoken by then. `report` is called on the event loop.
    """
    if outputs.audio and outputs.format == "m4b":
        Output("aac").check()
    await asyncio.to_thread(_check, outputs)
    plan = await planned(book, options, backend)
    version = backend.version
    keys = await asyncio.to_thread(
        lambda: [passage.key(version, backend.fingerprint(passage.voices)) for passage in plan.passages]
    )
    with WorkFolder(folder).opened() as work:
        await asyncio.to_thread(lambda: work.write_manifest(_manifest(book, plan, keys, version)))
        speaking = Narration(backend, work, plan, report)
        await speaking.run(keys)
        assembler = _Assembler(book, options, outputs, plan, keys, work, report, asyncio.get_running_loop())
        recording, files = await interruptible(assembler.run)
        if not keep_work:
            await asyncio.to_thread(work.remove)
    return BookResult(
        seconds=recording.seconds,
        chapters=tuple((chapter.title, chapter.start / SAMPLE_RATE) for chapter in recording.chapters),
        numbers=tuple(chapter.number for chapter in recording.chapters),
        files=tuple(files),
        notes=(*plan.notes, *_notes(book, outputs, recording)),
        spoken=speaking.spoken,
        kept=len(set(keys)) - speaking.spoken,
    )


def _check(outputs: BookFiles) -> None:
    """Raises CannotWrite for a file that cannot be written, before anything is spoken for it."""
    audio = outputs.audio
    if audio and outputs.by_chapter:
        with os_errors(audio):
            audio.mkdir(parents=True, exist_ok=True)
        audio = None
    for path in (audio, outputs.subtitles, outputs.read_along):
        if path:
            check_writable(path)


async def interruptible(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a thread. A cancellation sets the event and waits for the thread: nothing is written afterwards."""
    stop = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would log it
        raise


@dataclass(slots=True)
class _Assembler:
    """Makes the files, in a thread."""

    _book: Book
    _options: Options
    _outputs: BookFiles
    _plan: Plan
    _keys: Sequence[str]
    _work: WorkFolder
    _report: OnBookProgress
    _loop: asyncio.AbstractEventLoop
    _stop: threading.Event = field(default_factory=threading.Event)
    _phase: Phase = "levelling"
    _gain: float = 1.0
    _done: int = 0

    def run(self, stop: threading.Event) -> tuple[Recording, list[Path]]:
        self._stop = stop
        recording = survey(self._plan, self._keys, self._work, self._step)
        if not recording.chapters:
            raise NothingToSay(
                "nothing in the book can be spoken in its language, or in that of the voice", field="text"
            )
        self._gain = gain_to(self._options.loudness, recording.loudness)
        if self._options.loudness is not None:
            self._gain = recording.made_up(self._gain, self._sound(recording.chapters))
        self._phase = "writing"
        files = list(self._audio(recording.chapters))
        if path := self._outputs.subtitles:
            write_subtitles(path, recording.chapters)
            files.append(path)
        if path := self._outputs.read_along:
            self._read_along(path, recording.chapters)
            files.append(path)
        return recording, files

    def _step(self) -> None:
        if self._stop.is_set():
            raise Stopped
        self._done += 1
        outputs = self._outputs
        passes = 1 + (self._options.loudness is not None) + bool(outputs.audio) + bool(outputs.read_along)
        progress = BookProgress(self._phase, self._done, passes * len(self._keys))
        self._loop.call_soon_threadsafe(self._report, progress)

    def _sound(self, chapters: Sequence[SpokenChapter]) -> AudioParts:
        for chapter in chapters:
            yield from sound(chapter.segments, self._work, self._gain, self._step)

    def _audio(self, chapters: Sequence[SpokenChapter]) -> list[Path]:
        path, format = self._outputs.audio, self._outputs.format
        if path is None:
            return []
        if not self._outputs.by_chapter:
            write_audio(path, format, self._sound(chapters), book_tags(self._book, chapters), self._work.scratch)
            return [path]
        files, book = list[Path](), self._book
        for number, chapter in enumerate(chapters, 1):
            files.append(path / chapter_name(chapter, len(book.chapters), format))
            tags = BookTags(chapter.title, book.title, book.authors, book.cover, track=(number, len(chapters)))
            write_audio(files[-1], format, self._sound([chapter]), tags, self._work.scratch)
        return files

    def _read_along(self, path: Path, chapters: Sequence[SpokenChapter]) -> None:
        sounds = [self._work.scratch / f"{chapter.number}.mp3" for chapter in chapters]
        for chapter, each in zip(chapters, sounds, strict=True):
            write_audio(
                each, "mp3", self._sound([chapter]), BookTags(chapter.title, self._book.title), self._work.scratch
            )
        with new_file(path) as unfinished:
            write_read_along(unfinished, self._book, chapters, sounds)
        for each in sounds:
            each.unlink()


def _manifest(book: Book, plan: Plan, keys: Sequence[str], version: str) -> JsonObject:
    """Names the files of the work folder."""
    passages = [
        {"key": key, "chapter": each.chapter + 1, "voice": each.choice.voice, "gap": each.gap, "text": each.text}
        for key, each in zip(keys, plan.passages, strict=True)
    ]
    return {"title": book.title, "version": version, "stretches": passages}


def _notes(book: Book, outputs: BookFiles, recording: Recording) -> list[str]:
    notes = [
        f"{count} characters of chapter {number + 1} cannot be spoken and were left out"
        for number, count in recording.skipped.items()
    ]
    if book.cover and outputs.format == "m4b" and book.cover.media_type not in COVER_TYPES:
        notes.append(f"the cover is left out: .m4b takes no {book.cover.media_type}")
    return notes
