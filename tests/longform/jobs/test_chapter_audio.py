"""Chapters to listen to, of jobs that change meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.errors import Conflict, TooBusy
from kokoro_server.longform.books.production import Stopped
from kokoro_server.longform.jobs.chapter_audio import chapter_file
from kokoro_server.longform.jobs.folders import JobFolder
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.service import MAX_CHAPTERS, Jobs
from kokoro_server.longform.jobs.store import JobStore
from tests.longform.books.doubles import Tones, book
from tests.longform.jobs.doubles import add_book, got, runner, stored_in, until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    with stored_in(tmp_path) as store:
        yield store


async def made(root: Path, store: JobStore, job: Job) -> None:
    task = asyncio.create_task(runner(root, store, Tones()).run())
    await until(lambda: got(store, job).has_ended)
    task.cancel()
    await asyncio.wait([task])


async def test_a_chapter_of_a_job_that_is_deleted_meanwhile(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_book(tmp_path, store, book(1, 2), loudness="off")
    folder = JobFolder(tmp_path, job.id)
    await made(tmp_path, store, job)

    def removed(loudness: float | None, measured: float) -> float:
        shutil.rmtree(folder.path)
        return 1.0

    monkeypatch.setattr("kokoro_server.longform.jobs.chapter_audio.gain_to", removed)
    with pytest.raises(Conflict, match="not spoken yet"):
        chapter_file(folder, 1, "One", None, "mp3", threading.Event())
    assert not folder.path.exists()


async def test_a_chapter_that_nobody_waits_for_any_more(tmp_path: Path, store: JobStore) -> None:
    job, stop = add_book(tmp_path, store, book(1, 2)), threading.Event()
    folder = JobFolder(tmp_path, job.id)
    await made(tmp_path, store, job)
    stop.set()
    with pytest.raises(Stopped):
        chapter_file(folder, 1, "One", None, "mp3", stop)
    assert not folder.listen.exists()


async def test_a_caller_has_one_chapter_encoded_at_a_time(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(folder: JobFolder, number: int, *_: object) -> Path:
        stop = _[-1]
        assert isinstance(stop, threading.Event)
        begun.append(number)
        assert stop.wait(60)
        ended.append(number)
        raise Stopped

    begun, ended, services = list[int](), list[int](), cast(Any, None)
    monkeypatch.setattr("kokoro_server.longform.jobs.service.chapter_file", slow)
    monkeypatch.setattr("kokoro_server.longform.jobs.service.check_space", lambda _root: None)
    jobs = Jobs(tmp_path, store, services, Settings.load({}, dotenv=None), anyone=True)
    job = add_book(tmp_path, store, book(40, 1))

    def ask(caller: str, number: int) -> asyncio.Task[Path]:
        return asyncio.create_task(jobs.chapter(job, caller, number, "", "mp3"))

    asked = [ask("ann", number) for number in range(1, 3 * MAX_CHAPTERS + 1)]
    await until(lambda: sum(task.done() for task in asked) == 2 * MAX_CHAPTERS)
    refused = [task for task in asked if task.done()]  # the threads of the others were faster
    for task in refused:
        with pytest.raises(TooBusy, match="8 chapters"):
            await task
    await until(lambda: len(begun) == 1)
    (first,) = begun
    other = ask("bob", 40)
    await until(lambda: begun == [first, 40])
    asked[first - 1].cancel()  # the client has left
    await until(lambda: len(begun) == 3)
    assert ended == [first]
    for task in (*asked, other):
        task.cancel()
    await asyncio.gather(*asked, other, return_exceptions=True)
    path = JobFolder(tmp_path, job.id).listen / "3.mp3"
    path.parent.mkdir()
    path.touch()
    assert await ask("ann", 3) == path  # it was made before
