"""Folders of jobs that the store does not know: what is found again, what is left alone, what is removed."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kokoro_server.longform.jobs import runner as runners
from kokoro_server.longform.jobs.folders import JobFolder, new_id
from kokoro_server.longform.jobs.recovery import read_record, write_record
from kokoro_server.longform.jobs.store import JobStore
from kokoro_server.observability.conditions import Condition, Reason
from tests.longform.books.doubles import Tones
from tests.longform.jobs.doubles import add_list, got, runner, running, stored_in, until


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobStore]:
    monkeypatch.setattr(runners, "LOOK_S", 0.02)
    monkeypatch.setattr(runners, "CLEAN_S", 0.1)
    with stored_in(tmp_path) as store:
        yield store


async def test_results_that_nothing_is_known_of_stay(
    tmp_path: Path, store: JobStore, caplog: pytest.LogCaptureFixture
) -> None:
    folders = {name: JobFolder(tmp_path, new_id()) for name in ("result", "work", "upload")}
    for name, folder in folders.items():
        folder.make()
        folder.upload("a.txt").write_text("The sea.")
        if name != "upload":
            (folder.path / name).mkdir()
            (folder.path / name / "sea.mp3").write_bytes(b"sound")
        os.utime(folder.path, (1, 1))
    condition = Condition(Reason.JOBS_LOST)
    with caplog.at_level(logging.INFO):
        async with running(runner(tmp_path, store, Tones(), lost=condition)):
            await until(lambda: not folders["upload"].path.exists())
            await until(lambda: condition.current is not None)
            assert condition.current
            assert "2 folders hold results or work" in condition.current.message
            for name in ("result", "work"):
                assert folders[name].path.exists()
                folders[name].remove()
            await until(lambda: condition.current is None)
    id = folders["upload"].path.name
    assert f"folder removed id={id} why=no job was made of the upload bytes=8" in caplog.text


@pytest.mark.parametrize("left", [(), (".owner.unfinished",)])
async def test_a_process_killed_as_it_begins_or_ends_an_upload_leaves_no_folder(
    tmp_path: Path, store: JobStore, left: tuple[str, ...]
) -> None:
    minute_ago = time.time() - 60
    killed, present = (JobFolder(tmp_path, new_id()) for _ in range(2))
    for folder in (killed, present):
        folder.make()
        for name in left:
            (folder.path / name).touch()
    os.utime(killed.path, (minute_ago, minute_ago))
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: not killed.path.exists())
    assert present.path.exists()  # its process may be about to mark it


@pytest.mark.parametrize("name", ["job.json.unfinished", "voices.zip.unfinished"])
async def test_an_upload_whose_process_was_killed_as_it_wrote_a_file_is_removed(
    tmp_path: Path, store: JobStore, name: str
) -> None:
    folder = JobFolder(tmp_path, new_id())
    lock = folder.make_own()
    folder.upload("a.txt").write_text("The sea.")
    (folder.path / name).write_text("{")
    assert lock
    lock.close()
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: not folder.path.exists())


async def test_an_unfinished_job_is_found_again_and_made(tmp_path: Path, store: JobStore) -> None:
    job = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    async with running(runner(tmp_path, store, Tones(), at_once=0)):
        await until(JobFolder(tmp_path, job.id).record.exists)
    store.delete(job.id)
    store.forget(job.id)
    async with running(runner(tmp_path, store, Tones(), keep_hours=1.0)):
        await until(lambda: store.get(job.id) is not None and got(store, job).has_ended)
    done = got(store, job)
    assert (done.state, done.caller, done.options) == ("done", job.caller, job.options)


@pytest.mark.parametrize(
    "wrong", [{"name": {}}, {"created": "x"}, {"state": "lost"}, {"options": None}, {"id": "other"}]
)
def test_a_record_that_is_no_job_counts_as_none(tmp_path: Path, store: JobStore, wrong: dict[str, object]) -> None:
    job = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    folder = JobFolder(tmp_path, job.id)
    write_record(folder, job)
    assert read_record(folder) == replace(job, progress={}, attempts=0)
    folder.record.write_text(json.dumps(json.loads(folder.record.read_text()) | wrong))
    assert read_record(folder) is None


async def test_a_job_that_an_older_store_has_not_finished_is_not_made_again(tmp_path: Path, store: JobStore) -> None:
    job, backend = add_list(tmp_path, store, {"id": "a", "text": "Sea."}), Tones()
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).has_ended)
    done = got(store, job)
    store.update(job.id, state="queued", finished=None, result=None)
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).has_ended)
    assert got(store, job).result == done.result
    assert len(backend.spoken) == 1


async def test_all_files_are_their_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "LOOK_S", 0.02)
    before = os.umask(0o022)
    try:
        with stored_in(tmp_path / "jobs") as store:
            old, new = (add_list(tmp_path / "jobs", store, {"id": "a", "text": "Sea."}) for _ in range(2))
            folder = JobFolder(tmp_path / "jobs", old.id)
            store.update(old.id, state="failed", finished=1.0)  # by an earlier version
            (folder.path / "work").mkdir()
            (folder.path / "work" / "a.wav").write_bytes(b"sound")
            async with running(runner(tmp_path / "jobs", store, Tones())):
                await until(lambda: got(store, new).has_ended)
                await until(lambda: not JobFolder(tmp_path / "jobs", new.id).work.exists())
                modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "jobs").rglob("*")}
    finally:
        os.umask(before)
    modes[tmp_path / "jobs"] = (tmp_path / "jobs").stat().st_mode & 0o777
    assert {path: oct(mode) for path, mode in modes.items() if mode not in (0o700, 0o600)} == {}
    assert (folder.path / "work" / "a.wav") in modes


def test_a_folder_with_files_of_others_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "photographs").mkdir()
    with stored_in(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o755
