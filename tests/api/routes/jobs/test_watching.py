"""Events of jobs: any number of readers look at a job together."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.api.routes.jobs import watching
from kokoro_server.api.schemas.jobs import BookRequest, answer
from kokoro_server.config.settings import Settings
from kokoro_server.longform.jobs import store as stores
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.service import Jobs
from kokoro_server.longform.jobs.store import JobStore
from tests.growth import is_at_most
from tests.longform.jobs.doubles import PATIENCE, stored_in, until


def book(chapters: int, **fields: Any) -> Job:
    listed = [
        {"number": number, "title": "x", "level": 1, "characters": 9, "seconds": 1.0}
        for number in range(1, chapters + 1)
    ]
    about = {"title": "x", "chapters": listed, "remarks": [], "notes": [], "characters": 9}
    options = BookRequest.model_validate({}).model_dump()
    return Job("a-job-of-anns-01", "ann", "book", "x.txt", options, about, 1.0, **fields)


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobStore]:
    monkeypatch.setattr(watching, "LOOK_S", 0.05)
    monkeypatch.setattr(stores, "BUSY_S", 0.01)
    with stored_in(tmp_path) as store:
        yield store


def jobs_of(root: Path, store: JobStore) -> Jobs:
    parts: Any = None  # which speak
    return Jobs(root, store, parts, Settings.load({}, dotenv=None), anyone=True)


async def read(watches: watching.Watches, jobs: Jobs, job: Job, heard: list[str]) -> None:
    async for event in watches.events(jobs, job, lambda: False):
        heard.append(event)  # noqa: PERF401, each at once


async def test_an_event_is_written_once_for_all_its_readers(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def counted(job: Job, keep_s: float) -> str:
        written.append(job.version)
        return write(job, keep_s)

    write = watching._event
    monkeypatch.setattr(watching, "_event", counted)
    store.add(job := book(3), 1)
    watches, jobs = watching.Watches(), jobs_of(tmp_path, store)
    heard: list[list[str]] = [[] for _ in range(50)]
    readers = [asyncio.create_task(read(watches, jobs, job, each)) for each in heard]
    await until(lambda: all(heard))
    store.update(
        job.id,
        state="done",
        result={"seconds": 1.0, "files": [{"name": "x", "bytes": 1, "media_type": "x"}], "starts": {}, "notes": []},
    )
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*readers)
    assert written == [0, 1]
    assert all(events == heard[0] and len(events) == 2 for events in heard)
    assert '"state":"done"' in heard[0][1]
    assert not watches._sights


async def test_a_job_that_is_deleted_and_a_store_that_is_locked_for_a_while(tmp_path: Path, store: JobStore) -> None:
    store.add(job := book(1), 1)
    watches, jobs, heard = watching.Watches(), jobs_of(tmp_path, store), list[str]()
    reader = asyncio.create_task(read(watches, jobs, job, heard))
    await until(lambda: bool(heard))
    store._connection.execute("ALTER TABLE jobs RENAME TO away")
    await asyncio.sleep(0.3)
    assert not reader.done()
    store._connection.execute("ALTER TABLE away RENAME TO jobs")
    store.delete(job.id)
    async with asyncio.timeout(PATIENCE):
        await reader
    assert heard[1:] == ["event: deleted\ndata: {}\n\n"]


async def test_a_locked_store_holds_up_nobody_else(tmp_path: Path, store: JobStore) -> None:
    store._connection.execute("PRAGMA busy_timeout=60000")
    store.add(job := book(1), 1)
    other = sqlite3.connect(tmp_path / stores.FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [asyncio.create_task(store.use(store.update, job.id, started=1.0)) for _ in range(40)]
    async with asyncio.timeout(30):
        await asyncio.gather(*(asyncio.to_thread(time.monotonic) for _ in range(40)))
    assert not any(each.done() for each in waiting)
    other.execute("ROLLBACK")
    other.close()
    assert all(await asyncio.gather(*waiting))


def test_the_time_of_an_answer_grows_with_the_chapters_not_with_their_square() -> None:
    few, many = (
        book(chapters, state="running", progress={"fraction": 0.5, "chapters": list(range(chapters))})
        for chapters in (1_000, 8_000)
    )
    assert is_at_most(25, lambda: answer(few, 0.0), lambda: answer(many, 0.0), harmless=0)
