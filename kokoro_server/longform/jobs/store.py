"""Jobs in an SQLite file, which all processes of a server share.

A call waits for the disk, and for seconds while another process writes: `await store.use(store.get, id)`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from filelock import FileLock

from kokoro_server.errors import Conflict, SetupError, TooManyJobs, Unavailable
from kokoro_server.longform.jobs.folders import FILE_MODE, make_private, make_root
from kokoro_server.longform.jobs.job import Job

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FILE = "jobs.sqlite"
DAMAGED = f"{FILE}.damaged-"  # begins the name of a damaged file that was set aside
PARTS = ("", "-wal", "-shm")  # SQLite's files, by what follows the name
DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
OPEN_S = 60.0  # seconds to wait while another process opens the file
SCHEMA = 1
BUSY_S = 10.0  # seconds to wait while another process writes
RETRY_AFTER = 5.0  # seconds
TABLE = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, caller TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, options TEXT NOT NULL,
    about TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL, started REAL, finished REAL,
    progress TEXT NOT NULL, result TEXT, error TEXT, attempts INTEGER NOT NULL, version INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0
)"""
# Covers the queries of every half second: a row may have a megabyte, which SQLite reads to get at its last columns.
INDEX = "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (deleted, state, caller, created, id)"
COLUMNS = [field.name for field in fields(Job)]
AS_JSON = ("options", "about", "progress", "result", "error")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM jobs"  # noqa: S608, the names are ours
# A book may have thousands of chapters. SQLite removes them in a tenth of the time that Python takes to parse them.
OF_CHAPTERS = {"about": "$.chapters", "progress": "$.chapters", "result": "$.starts"}
SHORT = [f"json_remove({name}, '{OF_CHAPTERS[name]}')" if name in OF_CHAPTERS else name for name in COLUMNS]
SELECT_SHORT = f"SELECT {', '.join(SHORT)} FROM jobs"  # noqa: S608


class Waiting(NamedTuple):
    """A job that is not finished."""

    id: str
    caller: str
    created: float


class JobStore:
    """Thread-safe. Raises SetupError where the folder cannot be used.

    A damaged file is set aside under another name, and an empty one takes its place: `recovery` fills it again. The
    same happens while the server runs, also if the file is removed or replaced.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "jobs")
        self._path = folder / FILE
        try:
            make_root(folder)
            with self._lock:
                self._open()
        except (OSError, sqlite3.Error) as error:
            raise SetupError(f"JOBS_PATH={folder}: jobs cannot be kept there: {error}") from error

    def _open(self) -> None:
        with FileLock(self._path.with_name("opening"), timeout=OPEN_S, mode=FILE_MODE):
            try:
                self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._connection.close()
                self._set_aside(error)
                self._connect()

    def _connect(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, FILE_MODE))  # SQLite gives its other files the same mode
        self._connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        self._write_ahead()
        self._connection.execute("PRAGMA synchronous=FULL")
        if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise _damage("it is malformed")
        self._prepare(self._path)
        for part in PARTS:
            make_private(self._path.with_name(FILE + part))
        self._file_id = _file_id(self._path)

    def _set_aside(self, error: sqlite3.Error) -> None:
        aside = DAMAGED + time.strftime("%Y%m%d-%H%M%S")
        log.error("jobs.sqlite is damaged and is set aside name=%s error=%s", aside, error)
        for part in PARTS:
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(FILE + part).rename(self._path.with_name(aside + part))

    def _reopen(self) -> None:
        self._connection.close()
        self._open()

    def _write_ahead(self) -> None:
        """Only one of several starting processes can change the mode: SQLite refuses the rest without waiting."""
        until = time.monotonic() + BUSY_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _prepare(self, path: Path) -> None:
        self._connection.execute("BEGIN IMMEDIATE")  # one of several starting processes makes the table
        try:
            [version] = self._connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA:
                raise SetupError(f"{path}: was written by a later version of kokoro-server")
            if version == 0:
                self._connection.execute(TABLE)
                self._connection.execute(f"PRAGMA user_version={SCHEMA}")
            self._connection.execute(INDEX)
        finally:
            self._connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            self._connection.close()
        self._thread.shutdown(wait=False)

    async def use(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method in the store's own thread, so that no shared thread waits for a locked file."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(method, *args, **kwargs))

    def _execute(self, statement: str, *values: Any) -> tuple[list[Any], int]:
        """The rows of a statement, and how many it has changed."""
        with self._lock:
            try:
                if _file_id(self._path) != self._file_id:
                    log.warning("jobs.sqlite was removed or replaced, and is opened again")
                    self._reopen()
                try:
                    cursor = self._connection.execute(statement, values)
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._reopen()
                    cursor = self._connection.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
            except (OSError, SetupError, sqlite3.Error) as error:
                raise Unavailable(f"jobs cannot be read or written now: {error}", retry_after=RETRY_AFTER) from error

    def _column(self, statement: str, *values: Any) -> list[Any]:
        return [row[0] for row in self._execute(statement, *values)[0]]

    def restore(self, job: Job) -> bool:
        """Add a job that was lost. Returns False if its row exists, be it of a deleted job."""
        values = [_stored(name, getattr(job, name)) for name in COLUMNS]
        marks = ", ".join("?" * len(values))
        statement = f"INSERT OR IGNORE INTO jobs ({', '.join(COLUMNS)}) VALUES ({marks})"  # noqa: S608
        return self._execute(statement, *values)[1] > 0

    def add(self, job: Job, limit: int) -> None:
        """Raises TooManyJobs if its caller has `limit` jobs already."""
        values = [_stored(name, getattr(job, name)) for name in COLUMNS]
        marks = ", ".join("?" * len(values))
        statement = (
            f"INSERT INTO jobs ({', '.join(COLUMNS)}) SELECT {marks} "  # noqa: S608
            "WHERE (SELECT count(*) FROM jobs WHERE caller = ? AND deleted = 0) < ?"
        )
        _, added = self._execute(statement, *values, job.caller, limit)
        if not added:
            raise too_many(limit)

    def count(self, caller: str) -> int:
        [number] = self._column("SELECT count(*) FROM jobs WHERE caller = ? AND deleted = 0", caller)
        return int(number)

    def get(self, id: str) -> Job | None:
        rows, _ = self._execute(f"{SELECT} WHERE id = ? AND deleted = 0", id)
        return _job(rows[0]) if rows else None

    def of_caller(self, caller: str) -> list[Job]:
        """The newest first, without their chapters."""
        statement = f"{SELECT_SHORT} WHERE caller = ? AND deleted = 0 ORDER BY created DESC"
        return [_job(row) for row in self._execute(statement, caller)[0]]

    def version(self, id: str) -> int | None:
        return next(iter(self._column("SELECT version FROM jobs WHERE id = ? AND deleted = 0", id)), None)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        return dict(self._execute("SELECT state, count(*) FROM jobs WHERE deleted = 0 GROUP BY state")[0])

    def unfinished(self) -> list[Waiting]:
        """In the order in which they came."""
        statement = (
            "SELECT id, caller, created FROM jobs WHERE deleted = 0 AND state IN ('queued', 'running') ORDER BY created"
        )
        return [Waiting(*row) for row in self._execute(statement)[0]]

    def deleted(self) -> list[str]:
        return self._column("SELECT id FROM jobs WHERE deleted = 1")

    def ids(self) -> set[str]:
        """Of all jobs, deleted ones included."""
        return {*self._column("SELECT id FROM jobs")}

    def ended_before(self, when: float) -> list[str]:
        return self._column(
            "SELECT id FROM jobs WHERE state IN ('done', 'failed') AND finished < ? AND deleted = 0", when
        )

    def update(self, id: str, **changes: Any) -> bool:
        """Change a job. Returns whether it still exists."""
        sets = ", ".join(f"{name} = ?" for name in changes)
        values = [_stored(name, value) for name, value in changes.items()]
        statement = f"UPDATE jobs SET {sets}, version = version + 1 WHERE id = ? AND deleted = 0"  # noqa: S608
        return self._execute(statement, *values, id)[1] > 0

    def resume(self, id: str) -> None:
        """Queue a failed job again. Raises Conflict for a job in any other state."""
        statement = (
            "UPDATE jobs SET state = 'queued', error = NULL, finished = NULL, attempts = 0, version = version + 1 "
            "WHERE id = ? AND state = 'failed' AND deleted = 0"
        )
        if not self._execute(statement, id)[1]:
            raise Conflict("only a job that has failed can be resumed")

    def requeue(self) -> None:
        """Queue the jobs again that a process was making when it ended."""
        self._execute("UPDATE jobs SET state = 'queued', version = version + 1 WHERE state = 'running' AND deleted = 0")

    def delete(self, id: str, ended_before: float | None = None) -> None:
        """Hide a job from everybody. `forget` follows when its files are removed.

        With `ended_before`, only a job that ended before that time and was not resumed since.
        """
        statement = "UPDATE jobs SET deleted = 1, version = version + 1 WHERE id = ? AND (? IS NULL OR finished < ?)"
        self._execute(statement, id, ended_before, ended_before)

    def forget(self, id: str) -> None:
        self._execute("DELETE FROM jobs WHERE id = ?", id)


def too_many(limit: int) -> TooManyJobs:
    return TooManyJobs(
        f"more than the {limit} jobs that are kept for each caller (MAX_JOBS): delete some, or wait until they expire",
        retry_after=60,
    )


def now() -> float:
    return time.time()


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGES  # the rest of the number says where


def _damage(message: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(message)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _stored(name: str, value: Any) -> Any:
    return json.dumps(value) if name in AS_JSON and value is not None else value


def _job(row: Sequence[Any]) -> Job:
    values = dict(zip(COLUMNS, row, strict=True))
    for name in AS_JSON:
        if values[name] is not None:
            values[name] = json.loads(values[name])
    return Job(**values)
