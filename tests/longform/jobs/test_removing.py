"""What is removed, and what is not."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import pytest

from kokoro_server.longform.jobs import runner as runners
from kokoro_server.longform.jobs.folders import JobFolder, new_id
from kokoro_server.longform.jobs.store import JobStore
from tests.longform.books.doubles import Tones
from tests.longform.jobs.doubles import add_list, got, runner, running, stored_in, until


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "LOOK_S", 0.02)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    with stored_in(tmp_path) as store:
        yield store


async def test_folders_beside_those_of_jobs_are_left_alone(tmp_path: Path, store: JobStore) -> None:
    others = [tmp_path / name for name in ("photographs-2025", "my-own-recordings")]
    for folder in others:
        folder.mkdir()
        (folder / "sea.wav").touch()
    left_over = JobFolder(tmp_path, new_id())
    left_over.path.mkdir()
    left_over.upload("a.epub").touch()
    for path in (*others, left_over.path):
        os.utime(path, (1, 1))
    async with running(runner(tmp_path, store, Tones(), keep_hours=1.0)):
        await until(lambda: not left_over.path.exists())
    assert all((folder / "sea.wav").exists() for folder in others)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
async def test_an_upload_of_a_killed_process_is_removed_soon_and_no_other(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "CLEAN_S", 0.05)
    make = "import sys; from pathlib import Path; from kokoro_server.longform.jobs.folders import JobFolder, new_id; "
    make += "folder = JobFolder(Path(sys.argv[1]), new_id()); lock = folder.make_own(); "
    make += "folder.upload('a.epub').touch(); print(folder.path.name, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", make, str(tmp_path)]
    mine = JobFolder(tmp_path, new_id())
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout
    left = JobFolder(tmp_path, (await process.stdout.readline()).decode().strip())
    lock = mine.make_own()
    assert lock
    async with running(runner(tmp_path, store, Tones())):
        await asyncio.sleep(0.2)
        assert left.path.is_dir()
        process.kill()
        await process.communicate()
        await until(lambda: not left.path.exists())
        assert mine.path.is_dir()
        lock.close()  # as where it could not be removed at the end of an upload
        await until(lambda: not mine.path.exists())


async def test_a_job_that_was_added_just_before_its_process_was_killed_stays(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ids_before() -> set[str]:
        looks.append(1)
        return set()

    looks = list[int]()
    monkeypatch.setattr(runners, "CLEAN_S", 0.05)
    job = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    folder = JobFolder(tmp_path, job.id)
    folder.owner.touch()
    monkeypatch.setattr(store, "ids", ids_before)
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: len(looks) > 3 and got(store, job).state == "done")
    assert folder.upload("x.jsonl").exists()


async def test_a_job_whose_files_cannot_be_removed_now_is_not_forgotten(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without descriptors removes nothing, and `shutil.rmtree(…, ignore_errors=True)` does not tell."""
    job = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    folder, tries, remove = JobFolder(tmp_path, job.id), list[float](), shutil.rmtree

    def late(path: Path, **options: bool) -> None:
        tries.append(time.monotonic())
        if len(tries) > 2:
            remove(path, **options)

    monkeypatch.setattr(runners, "REMOVE_AGAIN_S", 0.2)
    monkeypatch.setattr(shutil, "rmtree", late)
    store.delete(job.id)
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: len(tries) == 2)
        assert folder.path.exists()
        assert store.deleted() == [job.id]
        await until(lambda: not store.deleted())
    assert not folder.path.exists()
    assert tries[1] - tries[0] >= 0.2


async def test_a_job_is_made_while_the_many_files_of_another_are_removed(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    removing, may_go_on = threading.Event(), threading.Event()
    remove = JobFolder.remove

    def slowly(folder: JobFolder) -> int | None:
        removing.set()
        assert may_go_on.wait(60)
        return remove(folder)

    monkeypatch.setattr(JobFolder, "remove", slowly)
    store.delete(old.id)
    async with running(runner(tmp_path, store, Tones())):
        await until(removing.is_set)
        new = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
        await until(lambda: got(store, new).has_ended)
        assert store.deleted() == [old.id]
        may_go_on.set()
        await until(lambda: not store.deleted())
    assert not JobFolder(tmp_path, old.id).path.exists()
    assert got(store, new).state == "done"


async def test_a_clock_that_is_set_right_costs_no_job_that_was_just_made(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "CLEAN_S", 0.0)
    monkeypatch.setattr(runners, "now", lambda: 1000.0)
    made = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    old = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    store.update(old.id, state="done", finished=1000.0)  # by a process before
    async with running(runner(tmp_path, store, Tones(), keep_hours=1.0)):
        await until(lambda: got(store, made).has_ended)
        monkeypatch.setattr(runners, "now", time.time)
        await until(lambda: not JobFolder(tmp_path, old.id).path.exists())
        assert got(store, made).finished == 1000.0


def test_what_is_resumed_while_it_expires_is_kept(tmp_path: Path, store: JobStore) -> None:
    job = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    store.update(job.id, state="failed", finished=1.0)
    assert store.ended_before(2.0) == [job.id]
    store.resume(job.id)
    store.delete(job.id, ended_before=2.0)
    assert got(store, job).state == "queued"
    store.delete(job.id)
    assert store.get(job.id) is None
