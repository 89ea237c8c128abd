"""Chapters to listen to, of jobs that change meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kokoro_server.errors import Conflict
from kokoro_server.longform.books.production import Stopped
from kokoro_server.longform.jobs.chapter_audio import chapter_file
from kokoro_server.longform.jobs.folders import JobFolder
from kokoro_server.longform.jobs.job import Job
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
