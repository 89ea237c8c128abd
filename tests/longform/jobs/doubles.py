"""Jobs without a server: a folder, a store, and a runner whose backend needs no model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from kokoro_server.api.schemas.jobs import BookRequest
from kokoro_server.api.speech import parse_line
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.jobs.folders import JobFolder, new_id
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.runner import JobRunner
from kokoro_server.longform.jobs.store import JobStore, now
from kokoro_server.observability.conditions import Condition, Reason
from tests.longform.books.doubles import Tones

PATIENCE = 60  # seconds


@contextmanager
def stored_in(root: Path) -> Iterator[JobStore]:
    store = JobStore(root)
    try:
        yield store
    finally:
        store.close()


def runner(
    root: Path, store: JobStore, backend: Tones, condition: Condition | None = None, **options: Any
) -> JobRunner:
    given = {"at_once": 1, "keep_hours": 0.0} | options
    lost = given.pop("lost", None) or Condition(Reason.JOBS_LOST)
    return JobRunner(
        root, store, lambda _folder: backend, parse_line, condition or Condition(Reason.JOBS), lost, **given
    )


@asynccontextmanager
async def running(runner: JobRunner) -> AsyncIterator[None]:
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def add_book(root: Path, store: JobStore, book: Book, caller: str = "ann", **options: Any) -> Job:
    folder = JobFolder(root, new_id())
    folder.path.mkdir(parents=True)
    folder.book.write_text(book.to_json())
    asked = BookRequest.model_validate({"format": "flac"} | options).model_dump()
    chapters = [
        {"number": number, "title": chapter.title, "level": 1, "characters": 100, "seconds": 1.0}
        for number, chapter in enumerate(book.chapters, 1)
    ]
    about = {"title": book.title, "chapters": chapters, "remarks": [], "notes": [], "characters": 1}
    job = Job(folder.path.name, caller, "book", "ships.epub", asked, about, now())
    store.add(job, 100)
    return job


def add_list(root: Path, store: JobStore, *lines: dict[str, Any], **options: Any) -> Job:
    folder = JobFolder(root, new_id())
    folder.path.mkdir(parents=True)
    folder.upload("x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = {"voice": "af_heart", "format": "wav", "shards": None} | options
    about = {"remarks": [], "notes": [], "characters": 1}
    job = Job(folder.path.name, "ann", "list", "x.jsonl", asked, about, now())
    store.add(job, 100)
    return job


async def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def got(store: JobStore, job: Job) -> Job:
    found = store.get(job.id)
    assert found
    return found
