"""A chapter of a book to listen to, while the others are still being made."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from pathlib import Path
from typing import Any

from kokoro_server.audio.loudness import LoudnessMeter
from kokoro_server.errors import Conflict, NoSuchJob
from kokoro_server.longform.books.assembly import PassageAudio, add, gain_to, sound
from kokoro_server.longform.books.audio_files import write_audio
from kokoro_server.longform.books.containers.tags import BookTags
from kokoro_server.longform.books.options import BookFormat
from kokoro_server.longform.books.production import Stopped
from kokoro_server.longform.books.work_folder import MANIFEST, CannotWrite, WorkFolder
from kokoro_server.longform.jobs.folders import JobFolder


def chapter_file(
    folder: JobFolder, number: int, title: str, loudness: float | None, format: BookFormat, stop: threading.Event
) -> Path:
    """The file of a chapter, which is made when it is first asked for. Takes a while: call it in a thread."""

    def step() -> None:
        if stop.is_set():
            raise Stopped

    path = folder.listen / f"{number}.{format}"
    if path.exists():
        return path
    passages = _passages(folder, number)
    work = WorkFolder(folder.work)
    segments, meter = list[PassageAudio](), LoudnessMeter()
    for passage in passages:
        kept = work.get(passage["key"])
        if kept is None:
            raise _not_yet()
        add(segments, passage["key"], kept, passage["gap"], meter)
        step()
    gain = gain_to(loudness, meter.integrated)  # of the chapter alone: the book's is not known before all is spoken
    scratch = folder.listen / secrets.token_hex(8)  # two may ask for it at once
    try:
        folder.listen.mkdir(exist_ok=True)  # not with its parents: a job that is deleted stays so
        scratch.mkdir()
        made = scratch / path.name
        write_audio(made, format, sound(segments, work, gain, step), BookTags(title, title), scratch)
        made.replace(path)
    except (CannotWrite, FileNotFoundError):
        if scratch.exists():
            raise
        raise _not_yet() from None  # meanwhile the job was deleted, or is made once more
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def _passages(folder: JobFolder, number: int) -> list[dict[str, Any]]:
    try:
        manifest = json.loads((folder.work / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise _not_yet() from None
    passages = [each for each in manifest["stretches"] if each["chapter"] == number]
    if not passages:
        raise NoSuchJob(f"nothing is read in a chapter {number}", field="number")
    return passages


def _not_yet() -> Conflict:
    return Conflict("this chapter is not spoken yet", field="number")
