"""Makes the jobs in one of the processes that share a folder. When it ends, another takes over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kokoro_server.callers.current import caller
from kokoro_server.errors import Expired, KokoroError, SetupError, Unavailable, for_client, is_exhausted
from kokoro_server.longform.books.work_folder import CannotWrite
from kokoro_server.longform.bulk import lines
from kokoro_server.longform.bulk.makers.local import Parse
from kokoro_server.longform.jobs.folders import FILE_MODE, JobFolder, check_space
from kokoro_server.longform.jobs.job import Job, JobKind
from kokoro_server.longform.jobs.recovery import LostJobs, write_record
from kokoro_server.longform.jobs.store import JobStore, Waiting, now
from kokoro_server.longform.jobs.work import make_book, make_list
from kokoro_server.observability.conditions import Condition
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech_backend import SpeechBackend

log = logging.getLogger(__name__)

LOOK_S = 0.5  # seconds between two looks at the store
TAKE_OVER_S = 2.0  # seconds between two tries to take over
CLEAN_S = 60.0
REMOVE_AGAIN_S = 5.0  # after the files of a deleted job could not be removed
MAX_ATTEMPTS = 5  # in a row without progress, each of which ended the server
FULL_S = 60.0  # seconds until a full disk is checked again
# When a job is tried again for which no backend was available, and how often it is tried. Both kinds are given up after
# half an hour, which a book spends mostly in the tries of its passages.
RETRY: dict[JobKind, tuple[Backoff, int]] = {"book": (Backoff(30.0), 5), "list": (Backoff(5.0, 300.0), 12)}
HOUR = 3600.0


@dataclass(eq=False, slots=True)
class _Running:
    job: Job
    task: asyncio.Task[None]
    progress: JsonObject | None = None  # not stored yet
    has_gained: bool = False


class JobRunner:
    """Call `run`, and cancel it in the end. Jobs that are being made then go on at the next start."""

    def __init__(
        self,
        root: Path,
        store: JobStore,
        open_backend: Callable[[JobFolder], SpeechBackend],
        parse: Parse,
        condition: Condition,
        lost_condition: Condition,
        *,
        at_once: int,
        keep_hours: float,
        max_text: int = lines.MAX_TEXT,
    ) -> None:
        self._root, self._store, self._open_backend, self._parse = root, store, open_backend, parse
        self._condition, self._max_text = condition, max_text
        self._lost = LostJobs(root, store, lost_condition)
        self._at_once, self._keep_s = at_once, keep_hours * HOUR
        self._running: dict[str, _Running] = {}
        self._left: dict[str, float] = {}  # when deleted jobs whose files could not be removed are tried again
        self._removing: asyncio.Task[None] | None = None  # removes the files of deleted jobs
        self._counts: dict[str, int] = {}  # of jobs by their states
        self._cleaned = -CLEAN_S
        self._has_begun = False
        # When this process finished a job, by time.monotonic(): the system clock of some machines is wrong until they
        # have a network, and a job that was finished before that would seem years old.
        self._ended: dict[str, float] = {}
        self._why: dict[str, str] = {}  # a job is removed
        self._absences = Counter[str]()  # tries of a job in a row without progress for which no backend was available
        self._not_before: dict[str, float] = {}  # when a job may be tried again, by time.monotonic()

    def count(self, state: str) -> int:
        """The number of jobs in a state; 0 in all processes but the one that makes them."""
        return self._counts.get(state, 0)

    async def run(self) -> None:
        lock = FileLock(self._root / "runner", thread_local=False, mode=FILE_MODE)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                await asyncio.sleep(TAKE_OVER_S)
            except OSError as error:  # the folder cannot be written for a while
                self._set_condition(error)
                await asyncio.sleep(FULL_S)
        logged = ""
        try:
            while True:
                try:
                    await self._look()
                    logged = ""
                    self._condition.clear()
                except Exception as error:  # a disk that is full for a while must not end the loop
                    if repr(error) != logged:  # nor fill the rest of the disk with the same line twice a second
                        log.exception("jobs cannot be made now")
                    logged = repr(error)
                    self._set_condition(error)
                await asyncio.sleep(LOOK_S)
        finally:
            tasks = [running.task for running in self._running.values()]
            if self._removing:
                tasks.append(self._removing)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            lock.release()

    def _set_condition(self, error: Exception) -> None:
        self._condition.set(f"jobs are not made now: {error}; check the folder that JOBS_PATH names")

    async def _look(self) -> None:
        if not self._has_begun:
            await self._store.use(self._store.requeue)
            await asyncio.to_thread(self._lost.begin)
            self._has_begun = True
        for running in list(self._running.values()):
            await self._tend(running)
        if self._removing is None or self._removing.done():
            deleted = await self._store.use(self._store.deleted)
            due = (id for id in deleted if time.monotonic() >= self._left.get(id, 0.0))
            if ended := [id for id in due if id not in self._running]:
                self._removing = asyncio.create_task(self._remove(ended))
        for waiting in self._next(await self._store.use(self._store.unfinished)):
            if job := await self._store.use(self._store.get, waiting.id):
                await self._start(job)
        self._counts = await self._store.use(self._store.counts)
        if time.monotonic() - self._cleaned >= CLEAN_S:
            self._cleaned = time.monotonic()
            await asyncio.to_thread(self._clean)

    async def _remove(self, deleted: Sequence[str]) -> None:
        """Remove files one job after the other, in a task of their own: a list may have a million files."""
        for id in deleted:
            try:
                size = await asyncio.to_thread(JobFolder(self._root, id).remove)
                if size is None:  # who forgot it now would leave files that nobody knows of
                    self._left[id] = time.monotonic() + REMOVE_AGAIN_S
                    log.warning("not all files of a deleted job can be removed yet id=%s", id)
                    continue
                await self._store.use(self._store.forget, id)
                log.info("job removed id=%s why=%s bytes=%d", id, self._why.pop(id, "deleted"), size)
            except KokoroError as error:  # tried again at the next look
                log.warning("a deleted job cannot be forgotten yet id=%s error=%s", id, error.message)
            self._not_before.pop(id, None)
            self._absences.pop(id, None)
            self._ended.pop(id, None)
            self._left.pop(id, None)

    async def _tend(self, running: _Running) -> None:
        """Store the progress of a job; stop a job that was deleted, or for which the disk is too full."""
        if running.task.done():
            del self._running[running.job.id]
            return
        progress = running.progress
        if progress is not None:
            changes: JsonObject = {"progress": progress}
            if running.has_gained:
                changes["attempts"] = 0
            exists = await self._store.use(self._store.update, running.job.id, **changes)
            if running.progress is progress:
                running.progress = None
        else:
            exists = await self._store.use(self._store.version, running.job.id) is not None
        if not exists:
            await self._stop(running)
            return
        try:
            await asyncio.to_thread(check_space, self._root)
        except Unavailable as error:
            await self._stop(running)
            if running.task.cancelled():  # else it ended meanwhile
                await self._put_off(running.job, FULL_S, error)

    async def _stop(self, running: _Running) -> None:
        running.task.cancel()
        await asyncio.wait([running.task])
        self._running.pop(running.job.id, None)

    async def _try_later(self, job: Job, error: KokoroError) -> None:
        backoff, most = RETRY[job.kind]
        has_gained = self._running[job.id].has_gained
        self._absences[job.id] = absences = 0 if has_gained else self._absences[job.id] + 1
        if absences < most:
            attempts = 0 if has_gained else job.attempts  # this one has not ended the server
            await self._put_off(job, backoff.wait(absences), error, attempts=attempts)
        else:
            del self._absences[job.id]
            message = f"it was tried {absences} times without progress, the last time: {error.message}"
            await self._end(job, error={"code": error.code, "message": message, "field": None})

    async def _put_off(self, job: Job, seconds: float, error: KokoroError, **changes: Any) -> None:
        log.warning("job waits id=%s s=%.0f error=%s", job.id, seconds, error.message)
        self._not_before[job.id] = time.monotonic() + seconds
        running = self._running.get(job.id)
        stored = await self._store.use(self._store.get, job.id)
        latest = (running.progress if running else None) or (stored.progress if stored else {})
        progress = latest | {"waiting": error.message}
        await self._store.use(self._store.update, job.id, state="queued", progress=progress, **changes)

    def _next(self, jobs: list[Waiting]) -> list[Waiting]:
        """The jobs to start now: the oldest of the callers with the fewest running jobs."""
        time_now = time.monotonic()
        waiting = [job for job in jobs if job.id not in self._running and self._not_before.get(job.id, 0.0) <= time_now]
        has = Counter(running.job.caller for running in self._running.values())
        chosen: list[Waiting] = []
        while waiting and len(self._running) + len(chosen) < self._at_once:
            job = min(waiting, key=lambda job: (has[job.caller], job.created))
            waiting.remove(job)
            has[job.caller] += 1
            chosen.append(job)
        return chosen

    async def _start(self, job: Job) -> None:
        self._not_before.pop(job.id, None)
        if job.attempts >= MAX_ATTEMPTS:
            message = f"it was tried {job.attempts} times without progress: the server ended each time"
            await self._end(job, error={"code": "internal_error", "message": message, "field": None})
            return
        try:
            await asyncio.to_thread(check_space, self._root)
        except Unavailable as error:
            await self._put_off(job, FULL_S, error)
            return
        changes = {"state": "running", "started": job.started or now(), "attempts": job.attempts + 1}
        if await self._store.use(self._store.update, job.id, **changes):
            task = asyncio.create_task(self._make(job))
            self._running[job.id] = _Running(job, task)

    async def _make(self, job: Job) -> None:
        log.info("job begins id=%s kind=%s attempt=%d", job.id, job.kind, job.attempts + 1)
        caller.set(job.caller)
        begun = time.monotonic()
        try:
            result = await self._result(job)
        except asyncio.CancelledError:
            # The process ends and the next one goes on, by no fault of the job; or the job was deleted.
            with contextlib.suppress(KokoroError):
                await asyncio.shield(self._store.use(self._store.update, job.id, attempts=0))
            raise
        except (Unavailable, Expired) as error:
            await self._try_later(job, error)
        except Exception as error:
            if is_exhausted(error.__cause__ or error):  # a file could not be opened, or no process be started
                await self._try_later(job, for_client(error.__cause__ or error))
                return
            if not isinstance(error, KokoroError):
                log.exception("job failed unexpectedly id=%s", job.id)
            log.warning("job failed id=%s error=%r", job.id, error)
            await self._end(job, error=self._for_client(error, job))
        else:
            log.info("job done id=%s audio_s=%.1f s=%.1f", job.id, result["seconds"], time.monotonic() - begun)
            await self._end(job, result=result)
            if job.kind == "list":  # the result holds all of it and is stored
                await asyncio.to_thread(shutil.rmtree, JobFolder(self._root, job.id).work, ignore_errors=True)

    async def _result(self, job: Job) -> JsonObject:
        folder = JobFolder(self._root, job.id)
        reached = job.progress.get("fraction", 0.0)

        def report(progress: JsonObject) -> None:
            running = self._running[job.id]
            running.progress = progress
            running.has_gained = running.has_gained or progress["fraction"] > reached

        backend = await asyncio.to_thread(self._open_backend, folder)  # reads files
        if job.kind == "book":
            return await make_book(job, folder, backend, report)
        return await make_list(job, folder, backend, self._parse, self._max_text, report)

    async def _end(self, job: Job, *, result: JsonObject | None = None, error: JsonObject | None = None) -> None:
        state = "failed" if error else "done"
        self._ended[job.id] = time.monotonic()
        running = self._running.get(job.id)
        changes: JsonObject = {"state": state, "finished": now(), "result": result, "error": error}
        folder = JobFolder(self._root, job.id)
        await asyncio.to_thread(write_record, folder, replace(job, **changes))
        await asyncio.to_thread(folder.make_private)
        if running and running.progress:
            changes["progress"], running.progress = running.progress, None
        while True:
            try:
                await self._store.use(self._store.update, job.id, **changes)
                return
            except Unavailable as fault:  # the work is not repeated for that
                log.warning("the end of a job cannot be stored yet id=%s error=%s", job.id, fault.message)
                await asyncio.sleep(LOOK_S)

    def _for_client(self, error: Exception, job: Job) -> JsonObject:
        """An error without the paths of the server's folders."""
        if isinstance(error, SetupError | CannotWrite):
            message = error.message.replace(f"{JobFolder(self._root, job.id).path}/", "")
            return {"code": "cannot_write", "message": message, "field": None}
        known = for_client(error)
        return {"code": known.code, "message": known.message, "field": known.field}

    def _clean(self) -> None:
        """Delete expired jobs, and look for lost ones."""
        if self._keep_s:
            before = now() - self._keep_s
            for id in self._store.ended_before(before):
                if time.monotonic() - self._ended.get(id, float("-inf")) < self._keep_s:
                    continue
                log.info("job expired id=%s", id)
                self._why[id] = "expired"
                self._store.delete(id, ended_before=before)
        for id in self._lost.look():
            self._ended[id] = time.monotonic()  # its caller gets the time to fetch it
