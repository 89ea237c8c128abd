"""Jobs without their row in jobs.sqlite, which was lost, replaced by an older one, or damaged.

Each folder has a copy of its job, `job.json`, written when the job is added and when it ends. Jobs that the store does
not know are added to it from there, with their results and their work.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter

from kokoro_server.longform.jobs.folders import JobFolder, is_id, is_private
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.store import DAMAGED, JobStore, now
from kokoro_server.observability.conditions import Condition
from kokoro_server.runtime.files import is_ownerless, new_file

log = logging.getLogger(__name__)

DAY_S = 24 * 3600.0
BARE_S = 30.0  # a process that makes a folder marks it at once
MAX_NAMED = 3  # folders in one message
RECORD = TypeAdapter(Job)


def write_record(folder: JobFolder, job: Job) -> None:
    """Logs a failure: the job itself does not need it."""
    try:
        with new_file(folder.record) as unfinished:
            unfinished.touch(0o600)
            unfinished.write_text(json.dumps(asdict(replace(job, progress={}, attempts=0))), encoding="utf-8")
    except OSError as error:
        log.warning("the record of a job cannot be written id=%s error=%s", job.id, error)


def read_record(folder: JobFolder) -> Job | None:
    """None if there is none, or if it is damaged or another job's."""
    try:
        job = RECORD.validate_json(folder.record.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
    return job if job.id == folder.path.name else None


class LostJobs:
    """Its methods read files: call them in a thread."""

    def __init__(self, root: Path, store: JobStore, condition: Condition) -> None:
        self._root, self._store, self._condition = root, store, condition
        self._found = 0  # jobs, by this process
        self._found_at = 0.0  # by time.monotonic()

    def begin(self) -> None:
        """Bring folders and store into line, once: both may be of an earlier version, or restored from a backup."""
        for id in self._store.ids():
            folder = JobFolder(self._root, id)
            if not folder.path.is_dir():
                continue
            if not is_private(folder.path):
                folder.make_private()
            job, record = self._store.get(id), read_record(folder)
            if job and record and record.state == "done" and not job.has_ended:
                log.warning("job found again id=%s state=done: jobs.sqlite is older than its folder", id)
                self._store.update(id, state="done", finished=record.finished, result=record.result, error=None)
            elif job and record is None:
                write_record(folder, job)

    def look(self) -> list[str]:
        """Add jobs that the store does not know, and remove uploads without a job. Returns the ids of added jobs."""
        known, added, stranded = self._store.ids(), list[str](), list[str]()
        names = sorted(path.name for path in self._root.iterdir())
        for folder in (JobFolder(self._root, name) for name in names if is_id(name) and name not in known):
            if not folder.is_ours:
                continue
            record = read_record(folder)
            if record:
                state = record.state if record.has_ended else "queued"
                if self._store.restore(replace(record, state=state)):
                    log.warning("job found again id=%s state=%s: jobs.sqlite did not have it", record.id, state)
                    added.append(record.id)
            elif folder.has_work:
                stranded.append(folder.path.name)
            elif self._is_abandoned(folder) and (size := folder.remove()) is not None:
                log.info("folder removed id=%s why=no job was made of the upload bytes=%d", folder.path.name, size)
        if added:
            self._found += len(added)
            self._found_at = time.monotonic()
        self._report(stranded, [name for name in names if name.startswith(DAMAGED)])
        return added

    def _is_abandoned(self, folder: JobFolder) -> bool:
        """Whether no upload is in progress there. Without a mark of its owner, some time must have passed."""
        if is_ownerless(folder.path):
            return self._store.version(folder.path.name) is None  # a job may have been added just now
        return not folder.owner.exists() and _is_older(folder.path, now() - (BARE_S if folder.is_bare else DAY_S))

    def _report(self, stranded: list[str], damaged: list[str]) -> None:
        messages = []
        if damaged:
            messages.append(f"jobs.sqlite was damaged and is kept as {damaged[0]}: delete it if it is not needed")
        if self._found and time.monotonic() - self._found_at < DAY_S:
            messages.append(f"{self._found} jobs were missing in jobs.sqlite, and were found again from their folders")
        if stranded:
            more = ", …" if len(stranded) > MAX_NAMED else ""
            named = ", ".join(stranded[:MAX_NAMED]) + more
            messages.append(
                f"{len(stranded)} folders hold results or work of jobs that nothing is known of ({named}): "
                "take from them what is needed, and delete them"
            )
        if messages:
            self._condition.set(f"in the folder that JOBS_PATH names: {'; '.join(messages)}")
        else:
            self._condition.clear()


def _is_older(path: Path, time: float) -> bool:
    try:
        return path.stat().st_mtime < time
    except OSError:  # removed just now
        return False
