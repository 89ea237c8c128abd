from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kokoro_server.errors import Conflict, SetupError, TooManyJobs
from kokoro_server.longform.jobs.folders import new_id
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.store import FILE, JobStore
from tests.longform.books.doubles import Tones
from tests.longform.jobs.doubles import runner, running, stored_in, until


def job(number: int, caller: str = "ann") -> Job:
    return Job(f"job-number-{number}", caller, "list", "ä.jsonl", {"voice": "x"}, {"characters": 1}, number)


def test_several_processes_share_it_and_the_limit_holds(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: JobStore(tmp_path), range(4)))

        def add(number: int) -> bool:
            try:
                stores[number % 4].add(job(number), 10)
            except TooManyJobs:
                return False
            return True

        assert sum(pool.map(add, range(40))) == 10
    stores[0].add(job(100, "bob"), 10)
    assert len(stores[3].of_caller("ann")) == stores[2].count("ann") == 10
    for store in stores:
        store.close()


def test_what_is_stored(tmp_path: Path) -> None:
    with stored_in(tmp_path) as store:
        store.add(job(1), 1)
        assert store.update("job-number-1", state="running", progress={"fraction": 0.5})
    with stored_in(tmp_path) as store:
        found = store.get("job-number-1")
        assert found
        assert (found.state, found.progress, found.version) == ("running", {"fraction": 0.5}, 1)
        assert [each.id for each in store.unfinished()] == ["job-number-1"]
        with pytest.raises(Conflict, match="failed"):
            store.resume("job-number-1")
        store.update("job-number-1", state="failed", error={"code": "x"}, finished=2.0)
        store.resume("job-number-1")
        resumed = store.get("job-number-1")
        assert resumed
        assert (resumed.state, resumed.error) == ("queued", None)
        store.delete("job-number-1")
        assert store.get("job-number-1") is None
        assert not store.update("job-number-1", state="done")
        assert store.deleted() == ["job-number-1"]
        store.add(job(2), 1)  # what is deleted does not count
        store.forget("job-number-1")
        assert store.ids() == {"job-number-2"}


def test_many_books_are_listed_without_their_chapters(tmp_path: Path) -> None:
    about = {"title": "“Ä\ud800”", "chapters": [{"number": 1}], "characters": 1}
    book = Job("job-of-a-book", "ann", "book", "x.txt", {"chapters": "1"}, about, 2.0)
    with stored_in(tmp_path) as store:
        store.add(job(1), 2)
        store.add(book, 2)
        assert [each.id for each in store.of_caller("ann")] == [book.id, "job-number-1"]
        store.update(
            book.id, progress={"fraction": 0.5, "chapters": [0]}, result={"seconds": 1.5, "starts": {"1": 0.0}}
        )
        [listed, _] = store.of_caller("ann")
        assert listed.about == {"title": about["title"], "characters": 1}
        assert (listed.options, listed.progress, listed.result) == (
            {"chapters": "1"},
            {"fraction": 0.5},
            {"seconds": 1.5},
        )
        whole = store.get(book.id)
        assert whole
        assert whole.about == about
        assert whole.result == {"seconds": 1.5, "starts": {"1": 0.0}}


def damaged(path: Path) -> None:
    """Overwrite a page in the middle of the file."""
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"x" * 4096
    path.write_bytes(content)


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    with stored_in(tmp_path) as store:
        store.add(job(1), 9)
    damaged(tmp_path / FILE)
    with stored_in(tmp_path) as store:
        assert store.ids() == set()
        store.add(job(2), 9)
    assert len(list(tmp_path.glob("jobs.sqlite.damaged-*"))) == 1


def test_a_file_that_is_removed_or_replaced_is_opened_again(tmp_path: Path) -> None:
    with stored_in(tmp_path) as store, stored_in(tmp_path) as other:
        store.add(job(1), 9)
        for path in tmp_path.glob("jobs.sqlite*"):
            path.unlink()
        assert other.ids() == set()
        other.add(job(2), 9)
        assert store.ids() == {job(2).id}


FIRST_TABLE = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, caller TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, options TEXT NOT NULL,
    about TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL, started REAL, finished REAL,
    progress TEXT NOT NULL, result TEXT, error TEXT, attempts INTEGER NOT NULL, version INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0
)"""  # of the first version that had jobs


async def test_jobs_of_the_first_version_are_made(tmp_path: Path) -> None:
    ids = [new_id() for _ in range(2)]
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(FIRST_TABLE)
        connection.execute("PRAGMA user_version=1")
        options = json.dumps({"voice": "af_heart", "format": "wav", "shards": None})
        about = json.dumps({"remarks": [], "notes": [], "characters": 1})
        for id, state, result in zip(ids, ("done", "running"), ('{"seconds": 1.0, "files": []}', None), strict=True):
            values = (id, "ann", "list", "x.jsonl", options, about, 1.0, state, 1.0, 2.0, "{}", result, None, 1, 3, 0)
            connection.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(values))})", values)
            (tmp_path / id / "result").mkdir(parents=True)
            (tmp_path / id / "upload.jsonl").write_text('{"id": "a", "text": "Sea."}\n')
    connection.close()
    with stored_in(tmp_path) as store:
        async with running(runner(tmp_path, store, Tones())):
            await until(lambda: store.counts() == {"done": 2})
            await until(lambda: all((tmp_path / id / "job.json").exists() for id in ids))
    (tmp_path / FILE).unlink()
    with stored_in(tmp_path) as store:
        async with running(runner(tmp_path, store, Tones())):
            await until(lambda: store.counts() == {"done": 2})
        assert {each.id for each in store.of_caller("ann")} == {*ids}


def test_a_file_that_is_no_store_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    with sqlite3.connect(tmp_path / "later" / FILE) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(SetupError, match="later version"):
        JobStore(tmp_path / "later")
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="JOBS_PATH"):
        JobStore(tmp_path / "file")
