"""Makes the result of a job. An interrupted job goes on from there when it is made again."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath

from kokoro_server.errors import InvalidInput, SetupError, Unavailable
from kokoro_server.longform.books import production, speaking
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.work_folder import new_file
from kokoro_server.longform.bulk import run as bulk
from kokoro_server.longform.bulk.makers.local import BackendMaker, Parse
from kokoro_server.longform.bulk.outputs import WORK, outputs
from kokoro_server.longform.jobs.folders import FOLDER_MODE, JobFolder
from kokoro_server.longform.jobs.job import Job, book_options, book_outputs
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech_backend import SpeechBackend

MEDIA_TYPES = {
    ".m4b": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".opus": "audio/ogg",
    ".flac": "audio/flac",
    ".zip": "application/zip",
    ".epub": "application/epub+zip",
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt",
}
BLOCK = 1 << 20  # bytes
SPEAKING = 0.95  # of the whole progress; the rest is assembling files
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # of the members of a zip file: the same content makes the same file

ReportProgress = Callable[[JsonObject], None]


async def make_book(job: Job, folder: JobFolder, backend: SpeechBackend, report: ReportProgress) -> JsonObject:
    """Returns the result."""

    def show(progress: speaking.BookProgress) -> None:
        share = progress.done / max(progress.total, 1)
        is_speaking = progress.phase == "speaking"
        latest.update(
            {
                "phase": progress.phase,
                "fraction": round(SPEAKING * share if is_speaking else SPEAKING + (1 - SPEAKING) * share, 4),
                "seconds_left": None if progress.left is None else round(progress.left, 1),
                "audio_seconds": round(progress.seconds, 1) if is_speaking else latest.get("audio_seconds", 0.0),
                "chapters": sorted(progress.chapters) if progress.chapters is not None else latest.get("chapters"),
            }
        )
        report({**latest})

    latest: JsonObject = {}
    book = await asyncio.to_thread(_read_book, folder.book)
    await asyncio.to_thread(shutil.rmtree, folder.listen, ignore_errors=True)
    await asyncio.to_thread(folder.result.mkdir, FOLDER_MODE, exist_ok=True)
    wanted = book_outputs(job.options, folder.result, PurePath(job.name).stem)
    # In a thread: it is slow for thousands of ranges of thousands of chapters.
    options = await asyncio.to_thread(book_options, job.options, book)
    made = await production.produce(book, options, wanted, backend, folder.work, show, keep_work=True)
    files = list(made.files)
    if wanted.by_chapter and wanted.audio:
        chapters = [path for path in files if path.parent == wanted.audio]
        archive = wanted.audio.with_name(f"{wanted.audio.name}.zip")
        await production.interruptible(partial(zip_files, archive, chapters, wanted.audio))
        await asyncio.to_thread(shutil.rmtree, wanted.audio)
        files = [archive, *(path for path in files if path not in chapters)]
    return {
        "seconds": round(made.seconds, 3),
        "files": [_file(path) for path in files],
        "starts": {number + 1: round(start, 3) for number, (_, start) in zip(made.numbers, made.chapters, strict=True)},
        "notes": list(made.notes),
    }


def _read_book(path: Path) -> Book:
    try:
        return Book.from_json(path.read_bytes())
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SetupError(f"{path}: is damaged, or of another version; send the document again") from error


async def make_list(
    job: Job, folder: JobFolder, backend: SpeechBackend, parse: Parse, max_text: int, report: ReportProgress
) -> JsonObject:
    """Returns the result: a zip file of the clips or shards, with their manifest."""

    def show(progress: bulk.BulkProgress) -> None:
        done = progress.done_characters - progress.absent_characters
        report(
            {
                "phase": "speaking",
                "fraction": round(SPEAKING * done / max(progress.characters, 1), 4),
                "seconds_left": None if progress.seconds_left is None else round(progress.seconds_left, 1),
                "audio_seconds": round(progress.seconds, 1),
                "lines": progress.lines,
                "done": progress.done - progress.absent,
                "failed": progress.failed - progress.absent,
            }
        )

    options, out = job.options, folder.work
    voice = options["voice"]
    with bulk.folder(out):
        work = bulk.BulkRun(
            folder.upload(job.name),
            out,
            outputs(out, options["shards"]),
            BackendMaker(backend, parse),
            defaults={"seed": 0, "format": options["format"]} | ({"voice": voice} if voice else {}),
            max_text=max_text,
            show=show,
        )
        done = await work.run()
        if done.absent:
            raise Unavailable(f"{done.absent} of {done.lines} lines could not be spoken yet: {done.absence}")
        if done.failed == done.lines:
            first = await asyncio.to_thread(_first_failure, out)
            raise InvalidInput(f"none of the {done.lines} lines could be made; {first}", field="file")
        await asyncio.to_thread(folder.result.mkdir, FOLDER_MODE, exist_ok=True)
        archive = folder.result / f"{PurePath(job.name).stem}.zip"
        members = [path for path in await asyncio.to_thread(lambda: sorted(out.iterdir())) if path.name != WORK]
        await production.interruptible(partial(zip_files, archive, members, out))
    seconds = await asyncio.to_thread(_seconds, out / bulk.MANIFEST)
    return {"seconds": seconds, "files": [_file(archive)], "notes": _notes(done)}


def _notes(done: bulk.BulkProgress) -> list[str]:
    failed = f"{done.failed} of {done.lines} lines could not be made: {bulk.FAILURES} in the result says why"
    damaged = f"{done.damaged} lines of the job's journal were damaged, as by a power cut: their clips were made again"
    return [note for note, count in ((failed, done.failed), (damaged, done.damaged)) if count]


def _first_failure(out: Path) -> str:
    with (out / bulk.FAILURES).open(encoding="utf-8") as lines:
        message: str = json.loads(next(lines))["message"]
    return message


def _seconds(manifest: Path) -> float:
    with manifest.open(encoding="utf-8") as lines:
        return round(sum(float(json.loads(line)["duration"]) for line in lines), 3)


def _file(path: Path) -> JsonObject:
    media_type = MEDIA_TYPES.get(path.suffix.lower(), "application/octet-stream")
    return {"name": path.name, "bytes": path.stat().st_size, "media_type": media_type}


def zip_files(archive: Path, members: Sequence[Path], base: Path, stop: threading.Event) -> None:
    """Write the archive, complete or not at all. Its members are compressed already."""
    with new_file(archive) as unfinished, zipfile.ZipFile(unfinished, "w") as target:
        for path in members:
            info = zipfile.ZipInfo(path.relative_to(base).as_posix(), FIXED_TIME)
            info.file_size = path.stat().st_size  # decides whether it needs the ZIP64 format
            with path.open("rb") as source, target.open(info, "w") as file:
                while block := source.read(BLOCK):
                    if stop.is_set():
                        raise production.Stopped
                    file.write(block)
