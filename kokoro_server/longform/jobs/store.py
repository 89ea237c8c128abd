"""Jobs in an SQLite file, which all processes of a server, and it again after a restart, read and write.

What waits for the disk takes milliseconds, and seconds while others write: `await store.use(store.get, id)`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from kokoro_server.errors import Conflict, SetupError, TooManyJobs, Unavailable
from kokoro_server.longform.jobs.job import Job

P = ParamSpec("P")
T = TypeVar("T")

FILE = "jobs.sqlite"
SCHEMA = 1
BUSY_S = 10.0  # seconds to wait for another process that writes
RETRY_AFTER = 5.0  # seconds
TABLE = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, caller TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, options TEXT NOT NULL,
    about TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL, started REAL, finished REAL,
    progress TEXT NOT NULL, result TEXT, error TEXT, attempts INTEGER NOT NULL, version INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0
)"""
# What is asked for twice a second is in it: a row may have a megabyte, all of which is read to get at its last columns.
INDEX = "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (deleted, state, caller, created, id)"
COLUMNS = [field.name for field in fields(Job)]
AS_JSON = ("options", "about", "progress", "result", "error")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM jobs"  # noqa: S608, the names are ours
# A book may have thousands of chapters. SQLite leaves them out in a tenth of the time that Python takes to read them.
OF_CHAPTERS = {"about": "$.chapters", "progress": "$.chapters", "result": "$.starts"}
SHORT = [f"json_remove({name}, '{OF_CHAPTERS[name]}')" if name in OF_CHAPTERS else name for name in COLUMNS]
SELECT_SHORT = f"SELECT {', '.join(SHORT)} FROM jobs"  # noqa: S608


class Waiting(NamedTuple):
    """A job that is not finished."""

    id: str
    caller: str
    created: float


class JobStore:
    """May be used from several threads."""

    def __init__(self, folder: Path) -> None:
        """Raises SetupError where it cannot be kept."""
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "jobs")
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            with self._lock:
                self._write_ahead()
                self._connection.execute("PRAGMA synchronous=FULL")
                self._prepare(path)
        except (OSError, sqlite3.Error) as error:
            raise SetupError(f"JOBS_PATH={folder}: jobs cannot be kept there: {error}") from error

    def _write_ahead(self) -> None:
        """Of several processes that start, one changes the file: SQLite refuses that to the others without waiting."""
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
        self._connection.execute("BEGIN IMMEDIATE")  # of several processes that start, one makes the table
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
        """Call a method of it in its own thread: those of all others must not wait for a file that is locked."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(method, *args, **kwargs))

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise Unavailable(f"jobs cannot be read or written now: {error}", retry_after=RETRY_AFTER) from error

    def add(self, job: Job, limit: int) -> None:
        """Raises TooManyJobs if its caller has so many already."""
        values = [_stored(name, getattr(job, name)) for name in COLUMNS]
        marks = ", ".join("?" * len(values))
        statement = (
            f"INSERT INTO jobs ({', '.join(COLUMNS)}) SELECT {marks} "  # noqa: S608
            "WHERE (SELECT count(*) FROM jobs WHERE caller = ? AND deleted = 0) < ?"
        )
        with self._using() as connection:
            added = connection.execute(statement, (*values, job.caller, limit)).rowcount
        if not added:
            raise too_many(limit)

    def count(self, caller: str) -> int:
        with self._using() as connection:
            [number] = connection.execute(
                "SELECT count(*) FROM jobs WHERE caller = ? AND deleted = 0", (caller,)
            ).fetchone()
        return int(number)

    def get(self, id: str) -> Job | None:
        return next(iter(self._select(SELECT, "WHERE id = ? AND deleted = 0", id)), None)

    def of_caller(self, caller: str) -> list[Job]:
        """The newest first, without their chapters."""
        return self._select(SELECT_SHORT, "WHERE caller = ? AND deleted = 0 ORDER BY created DESC", caller)

    def version(self, id: str) -> int | None:
        with self._using() as connection:
            row = connection.execute("SELECT version FROM jobs WHERE id = ? AND deleted = 0", (id,)).fetchone()
        return row[0] if row else None

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        with self._using() as connection:
            return dict(
                connection.execute("SELECT state, count(*) FROM jobs WHERE deleted = 0 GROUP BY state").fetchall()
            )

    def unfinished(self) -> list[Waiting]:
        """In the order in which they came."""
        statement = (
            "SELECT id, caller, created FROM jobs WHERE deleted = 0 AND state IN ('queued', 'running') ORDER BY created"
        )
        with self._using() as connection:
            return [Waiting(*row) for row in connection.execute(statement)]

    def deleted(self) -> list[str]:
        with self._using() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM jobs WHERE deleted = 1")]

    def ids(self) -> set[str]:
        """Of all jobs, deleted ones included."""
        with self._using() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM jobs")}

    def ended_before(self, when: float) -> list[str]:
        statement = "SELECT id FROM jobs WHERE state IN ('done', 'failed') AND finished < ? AND deleted = 0"
        with self._using() as connection:
            return [row[0] for row in connection.execute(statement, (when,))]

    def _select(self, select: str, condition: str, *values: Any) -> list[Job]:
        with self._using() as connection:
            rows = connection.execute(f"{select} {condition}", values).fetchall()
        return [_job(row) for row in rows]

    def update(self, id: str, **changes: Any) -> bool:
        """Change a job; whether it is still there."""
        sets = ", ".join(f"{name} = ?" for name in changes)
        values = [_stored(name, value) for name, value in changes.items()]
        statement = f"UPDATE jobs SET {sets}, version = version + 1 WHERE id = ? AND deleted = 0"  # noqa: S608
        with self._using() as connection:
            return connection.execute(statement, (*values, id)).rowcount > 0

    def resume(self, id: str) -> None:
        """Let a job that failed be made again. Raises Conflict for any other."""
        statement = (
            "UPDATE jobs SET state = 'queued', error = NULL, finished = NULL, attempts = 0, version = version + 1 "
            "WHERE id = ? AND state = 'failed' AND deleted = 0"
        )
        with self._using() as connection:
            if not connection.execute(statement, (id,)).rowcount:
                raise Conflict("only a job that has failed can be resumed")

    def requeue(self) -> None:
        """What a process was making that has ended waits again."""
        with self._using() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'queued', version = version + 1 WHERE state = 'running' AND deleted = 0"
            )

    def delete(self, id: str, ended_before: float | None = None) -> None:
        """Nobody sees it any more. `forget` follows, when its files are removed.

        `ended_before`: only if it has ended, and was not resumed meanwhile.
        """
        statement = "UPDATE jobs SET deleted = 1, version = version + 1 WHERE id = ? AND (? IS NULL OR finished < ?)"
        with self._using() as connection:
            connection.execute(statement, (id, ended_before, ended_before))

    def forget(self, id: str) -> None:
        with self._using() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (id,))


def too_many(limit: int) -> TooManyJobs:
    return TooManyJobs(
        f"more than the {limit} jobs that are kept for each caller (MAX_JOBS): delete some, or wait until they expire",
        retry_after=60,
    )


def now() -> float:
    return time.time()


def _stored(name: str, value: Any) -> Any:
    return json.dumps(value) if name in AS_JSON and value is not None else value


def _job(row: Sequence[Any]) -> Job:
    values = dict(zip(COLUMNS, row, strict=True))
    for name in AS_JSON:
        if values[name] is not None:
            values[name] = json.loads(values[name])
    return Job(**values)
