"""The audio of one chapter, while the rest of its book is still being made."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from pathlib import Path

from kokoro_server.audio.loudness import LoudnessMeter
from kokoro_server.errors import Conflict, NoSuchJob
from kokoro_server.longform.books.assembly import PassageAudio, add, gain_to, sound
from kokoro_server.longform.books.audio_files import write_audio
from kokoro_server.longform.books.containers.tags import BookTags
from kokoro_server.longform.books.options import BookFormat
from kokoro_server.longform.books.production import Stopped
from kokoro_server.longform.books.work_folder import MANIFEST, CannotWrite, WorkFolder
from kokoro_server.longform.jobs.folders import FOLDER_MODE, JobFolder, make_private
from kokoro_server.runtime.files import new_file
from kokoro_server.runtime.json import JsonObject


def chapter_path(folder: JobFolder, number: int, format: BookFormat) -> Path:
    return folder.listen / f"{number}.{format}"


def chapter_file(
    folder: JobFolder, number: int, title: str, loudness: float | None, format: BookFormat, stop: threading.Event
) -> Path:
    """The file of a chapter, made when it is first asked for. Takes a while: call it in a thread."""

    def step() -> None:
        if stop.is_set():
            raise Stopped

    path = chapter_path(folder, number, format)
    if path.exists():
        return path
    work = WorkFolder(folder.work)
    segments, meter = list[PassageAudio](), LoudnessMeter()
    for passage in _passages(folder, number):
        kept = work.get(passage["key"])
        if kept is None:
            raise _not_yet()
        add(segments, passage["key"], kept, passage["gap"], meter)
        step()
    gain = gain_to(loudness, meter.integrated)  # by the chapter alone: the whole book may not be spoken yet
    scratch = folder.listen / secrets.token_hex(8)  # two clients may ask for the same chapter at once
    try:
        folder.listen.mkdir(FOLDER_MODE, exist_ok=True)  # not its parents: a deleted job must not come back
        scratch.mkdir()
        with new_file(path, unfinished=scratch / path.name, durable=False) as made:
            write_audio(made, format, sound(segments, work, gain, step), BookTags(title, title), scratch)
            make_private(made)
    except (CannotWrite, FileNotFoundError):
        if scratch.exists():
            raise
        raise _not_yet() from None  # the job was deleted meanwhile, or is being made again
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def _passages(folder: JobFolder, number: int) -> list[JsonObject]:
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
