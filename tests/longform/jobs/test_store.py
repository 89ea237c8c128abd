from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kokoro_server.errors import Conflict, SetupError, TooManyJobs
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.store import FILE, JobStore
from tests.longform.jobs.doubles import stored_in


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


def test_a_file_that_is_no_store_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"something else" * 100)
    with pytest.raises(SetupError, match="JOBS_PATH"):
        JobStore(tmp_path)
    (tmp_path / "later").mkdir()
    with sqlite3.connect(tmp_path / "later" / FILE) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(SetupError, match="later version"):
        JobStore(tmp_path / "later")
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="JOBS_PATH"):
        JobStore(tmp_path / "file")
