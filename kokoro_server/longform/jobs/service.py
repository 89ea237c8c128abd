"""The jobs of a server, as its endpoints use them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from kokoro_server.config.settings import NO_JOBS, Settings
from kokoro_server.errors import Conflict, KokoroError, NoSuchJob, TooBusy
from kokoro_server.longform.books.options import BookFormat
from kokoro_server.longform.books.production import interruptible
from kokoro_server.longform.bulk.makers.local import Parse
from kokoro_server.longform.jobs.chapter_audio import chapter_file, chapter_path
from kokoro_server.longform.jobs.folders import JobFolder, check_space, is_id, new_id, writable
from kokoro_server.longform.jobs.job import Job, JobKind, JobState
from kokoro_server.longform.jobs.recovery import write_record
from kokoro_server.longform.jobs.runner import JobRunner
from kokoro_server.longform.jobs.store import JobStore, now, too_many
from kokoro_server.longform.jobs.uploads import DocumentReader
from kokoro_server.longform.jobs.voices import keep_voices, kept_voices
from kokoro_server.runtime.background import background
from kokoro_server.runtime.fair_slots import FairSlots
from kokoro_server.runtime.files import sync
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.speech_backend import LocalBackend, voices_of

log = logging.getLogger(__name__)

# Chapters that are encoded at one time for clients that listen early; of one caller; and that wait for it.
CHAPTERS_AT_ONCE, CHAPTERS_PER_CALLER, MAX_CHAPTERS = 2, 1, 8
RETRY_AFTER = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Upload:
    """A file in the folder of a future job."""

    id: str
    path: Path
    name: str


class Jobs:
    """`app.state.jobs`. `anyone`: every client that knows the id of a job may see it, as there are no API keys."""

    def __init__(self, root: Path, store: JobStore, services: Services, settings: Settings, *, anyone: bool) -> None:
        self._root, self._store, self._services, self._anyone = root, store, services, anyone
        self._limit = settings.max_jobs
        self.keep_s = settings.job_keep_hours * 3600
        self._reader = DocumentReader(settings.max_text_length)
        self._listening = FairSlots(CHAPTERS_AT_ONCE, CHAPTERS_PER_CALLER)

    def admit_document(self) -> None:
        """Raises TooBusy before an upload that would not be read soon."""
        self._reader.check()

    async def admit(self, caller: str) -> None:
        """Raises TooManyJobs or Unavailable before an upload of which no job could be made."""
        if await self._store.use(self._store.count, caller) >= self._limit:
            raise too_many(self._limit)
        await asyncio.to_thread(check_space, self._root)

    @asynccontextmanager
    async def uploading(self, name: str) -> AsyncIterator[Upload]:
        """A place for a file. It is removed at the end of the block, unless a job was added for it.

        What cannot be removed then, the process that makes jobs removes later; also if this process is killed.
        """
        await asyncio.to_thread(check_space, self._root)
        folder = JobFolder(self._root, id := new_id())
        with writable():
            lock = await asyncio.to_thread(folder.make_own)
        try:
            yield Upload(id, folder.upload(name), name)
        finally:
            with contextlib.suppress(KokoroError, OSError):
                if await self._store.use(self._store.version, id) is None:
                    await asyncio.to_thread(folder.remove)
                else:
                    await asyncio.to_thread(folder.owner.unlink, missing_ok=True)
            if lock:
                lock.close()

    async def describe(self, upload: Upload, options: JsonObject, *, keep: bool) -> JsonObject:
        """Describe a file. `keep` stores its book and its voices for a job.

        Raises UnreadableDocument, or an error of the options.
        """
        folder, voices = JobFolder(self._root, upload.id), self._services.voices.now
        target = folder.book if keep else None
        about = await self._reader.read(upload.path, upload.name, options, voices_of(voices), target)
        names = about.pop("voices")
        if keep:
            with writable():
                await asyncio.to_thread(keep_voices, folder, voices, names)
        return about

    async def add(self, upload: Upload, caller: str, kind: JobKind, options: JsonObject, about: JsonObject) -> Job:
        """What the client is promised then is on the disk: a power cut does not end the job."""
        job = Job(upload.id, caller, kind, upload.name, options, about, now())
        folder = JobFolder(self._root, job.id)
        with writable():
            await asyncio.to_thread(sync, folder.book if kind == "book" else upload.path)
        await self._store.use(self._store.add, job, self._limit)
        await asyncio.to_thread(write_record, folder, job)
        log.info("job added id=%s kind=%s characters=%d", job.id, kind, about["characters"])
        return job

    async def get(self, id: str, caller: str) -> Job:
        job = await self._store.use(self._store.get, id) if is_id(id) else None
        if job is None or not (self._anyone or job.caller == caller):
            raise NoSuchJob(f"no job {id[:60]!r}; it may have been deleted, or have expired", field="id")
        return job

    async def version(self, id: str) -> int | None:
        """Grows with every change. None for a job that does not exist."""
        return await self._store.use(self._store.version, id)

    async def all(self, caller: str) -> list[Job]:
        """The newest first, without their chapters."""
        return await self._store.use(self._store.of_caller, caller)

    async def resume(self, id: str, caller: str) -> Job:
        await self.get(id, caller)
        await self._store.use(self._store.resume, id)
        return await self.get(id, caller)

    async def delete(self, id: str, caller: str) -> None:
        """Hide a job. The process that makes jobs stops it and removes its files."""
        await self.get(id, caller)
        await self._store.use(self._store.delete, id)

    async def chapter(self, job: Job, caller: str, number: int, title: str, format: BookFormat) -> Path:
        """The file of a chapter, all of which is spoken. May be cancelled. Raises TooBusy and Unavailable."""
        folder = JobFolder(self._root, job.id)
        made = chapter_path(folder, number, format)
        if await asyncio.to_thread(made.exists):
            return made
        await asyncio.to_thread(check_space, self._root)
        if self._listening.wanted_by(caller) >= MAX_CHAPTERS:
            raise TooBusy(f"{MAX_CHAPTERS} chapters are being made for you; try again later", retry_after=RETRY_AFTER)
        async with self._listening.taken(caller):  # one caller must not take all threads and cores
            return await interruptible(partial(chapter_file, folder, number, title, job.options["loudness"], format))

    def result_file(self, job: Job, name: str | None) -> tuple[Path, JsonObject]:
        """The file of the result with that name, or the first."""
        if job.result is None:
            error = f": {job.error['message']}" if job.error else ""
            raise Conflict(f"the job has no result: it is {job.state}{error}", field="id")
        for file in job.result["files"]:
            if name in (None, file["name"]):
                return JobFolder(self._root, job.id).result / file["name"], file
        names = ", ".join(file["name"] for file in job.result["files"])
        raise NoSuchJob(f"the result has no such file; it has {names}", field="name")


def _open_backend(services: Services, folder: JobFolder) -> LocalBackend:
    """Speaks with the voices that were kept for the job."""
    custom = kept_voices(folder)
    if custom is None:  # a job of an earlier version: from now on
        now = services.voices.now
        keep_voices(folder, now, now.custom)
        return LocalBackend(services, services.voices.held(now.custom))
    return LocalBackend(services, services.voices.held(custom))


@asynccontextmanager
async def running_jobs(
    settings: Settings, services: Services, parse: Parse, *, anyone: bool
) -> AsyncIterator[Jobs | None]:
    """`parse` turns the fields of a line into speech, as those of a request."""
    root = settings.jobs_path
    if root is None or root == NO_JOBS:
        yield None
        return
    store = await asyncio.to_thread(JobStore, root)
    runner = JobRunner(
        root,
        store,
        partial(_open_backend, services),
        parse,
        services.jobs_condition,
        services.lost_jobs_condition,
        at_once=settings.jobs_at_once,
        keep_hours=settings.job_keep_hours,
        max_text=settings.max_text_length,
    )
    for state in get_args(JobState):
        services.metrics.jobs.labels(state).set_function(partial(runner.count, state))
    try:
        async with background(runner.run()):
            yield Jobs(root, store, services, settings, anyone=anyone)
    finally:
        await asyncio.to_thread(store.close)
