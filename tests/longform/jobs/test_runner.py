"""Who makes jobs: one after the other, again after any end, and not what nobody wants."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from kokoro_server.errors import G2PUnavailable, SetupError, Unavailable
from kokoro_server.longform.books.work_folder import UNFINISHED
from kokoro_server.longform.jobs import runner as runners
from kokoro_server.longform.jobs.chapter_audio import chapter_file
from kokoro_server.longform.jobs.folders import JobFolder, new_id
from kokoro_server.longform.jobs.store import JobStore
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import Spoken
from tests.longform.books.doubles import LIMIT, Tones, book
from tests.longform.jobs.doubles import add_book, add_list, got, runner, running, stored_in, until


class Held(Tones):
    """Speaks as many passages as it is let."""

    def __init__(self, let: int) -> None:
        super().__init__()
        self._let = asyncio.Semaphore(let)

    async def speak(self, speech: Speech) -> Spoken:
        await self._let.acquire()
        return await super().speak(speech)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kokoro_server.longform.books.passages.LIMIT", LIMIT)
    monkeypatch.setattr(runners, "LOOK_S", 0.02)
    monkeypatch.setattr(runners, "TAKE_OVER_S", 0.02)
    monkeypatch.setattr(runners, "RETRY", {"book": (Backoff(0.01), 5), "list": (Backoff(0.01), 5)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    with stored_in(tmp_path) as store:
        yield store


def kept_in(passages: Path) -> int:
    found = passages.iterdir() if passages.exists() else ()
    return sum(not path.name.endswith(UNFINISHED) for path in found)


async def test_a_book_is_made_and_its_chapters_can_be_heard_before(tmp_path: Path, store: JobStore) -> None:
    job = add_book(tmp_path, store, book(), loudness="off")
    backend, folder = Held(3), JobFolder(tmp_path, job.id)
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).progress.get("chapters") == [0])
        first = chapter_file(folder, 1, "One", None, "flac", threading.Event())
        assert got(store, job).state == "running"
        assert 0 < got(store, job).progress["fraction"] < 1
        for _ in range(10):
            backend._let.release()
        await until(lambda: got(store, job).has_ended)
    done = got(store, job)
    assert (done.state, done.error) == ("done", None)
    assert done.result
    assert [file["name"] for file in done.result["files"]] == ["ships.flac"]
    audio, rate = soundfile.read(folder.result / "ships.flac")
    start = round(done.result["starts"]["2"] * rate)
    chapter, _ = soundfile.read(first)
    assert len(chapter) == start  # what was heard before is what the book begins with
    assert chapter.tolist() == audio[:start].tolist()
    assert done.progress["chapters"] == [0, 1, 2]


@pytest.mark.parametrize("options", [{"by_chapter": True, "format": "mp3"}, {"subtitles": "srt", "read_along": True}])
async def test_results_of_several_files(tmp_path: Path, store: JobStore, options: dict[str, object]) -> None:
    job = add_book(tmp_path, store, book(), **options)
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: got(store, job).has_ended)
    result = got(store, job).result
    assert result
    names = [file["name"] for file in result["files"]]
    folder = JobFolder(tmp_path, job.id).result
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    assert [(folder / file["name"]).stat().st_size for file in result["files"]] == [
        file["bytes"] for file in result["files"]
    ]
    if "by_chapter" in options:
        assert names == ["ships.zip"]
        assert [name[:3] for name in zipfile.ZipFile(folder / "ships.zip").namelist()] == ["01 ", "02 ", "03 "]
    else:
        assert names == ["ships.flac", "ships.srt", "ships (read along).epub"]


async def test_what_a_process_has_left_goes_on_in_the_next(tmp_path: Path, store: JobStore) -> None:
    undisturbed = add_book(tmp_path, store, book())
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: got(store, undisturbed).has_ended)
    disturbed = add_book(tmp_path, store, book())
    passages = JobFolder(tmp_path, disturbed.id).work / "stretches"
    backends = [Held(2), Held(2), Held(100)]
    for kept, backend in zip((2, 4, 6), backends, strict=True):
        async with running(runner(tmp_path, store, backend)):
            await until(lambda: kept_in(passages) >= kept)  # noqa: B023
            if kept == 6:
                await until(lambda: got(store, disturbed).has_ended)
    assert got(store, disturbed).state == "done"
    assert [len(backend.spoken) for backend in backends] == [2, 2, 2]
    files = [JobFolder(tmp_path, job.id).result / "ships.flac" for job in (undisturbed, disturbed)]
    assert files[0].read_bytes() == files[1].read_bytes()


async def test_another_process_takes_over(tmp_path: Path, store: JobStore) -> None:
    job = add_book(tmp_path, store, book())
    first, second = Held(1), Held(100)
    async with running(runner(tmp_path, store, second)):
        await until(lambda: got(store, job).has_ended)
    assert second.spoken
    other = add_book(tmp_path, store, book(1, 40))
    async with asyncio.TaskGroup() as group:
        one = group.create_task(runner(tmp_path, store, first).run())
        await until(lambda: bool(first.spoken))
        two = group.create_task(runner(tmp_path, store, second).run())
        await asyncio.sleep(0.1)
        assert not got(store, other).has_ended
        one.cancel()
        await until(lambda: got(store, other).has_ended)
        two.cancel()
    assert got(store, other).state == "done"


async def test_callers_take_turns(tmp_path: Path, store: JobStore) -> None:
    jobs = [add_book(tmp_path, store, book(1, 2), caller) for caller in ("ann", "ann", "ann", "bob")]
    backend = Held(0)
    async with running(runner(tmp_path, store, backend, at_once=2)):
        await until(lambda: sum(got(store, job).state == "running" for job in jobs) == 2)
        assert [got(store, job).state for job in jobs] == ["running", "queued", "queued", "running"]
        for _ in range(100):
            backend._let.release()
        await until(lambda: all(got(store, job).state == "done" for job in jobs))


async def test_what_is_deleted_is_stopped_and_removed(tmp_path: Path, store: JobStore) -> None:
    job, waiting = add_book(tmp_path, store, book()), add_book(tmp_path, store, book())
    async with running(runner(tmp_path, store, Held(1))):
        await until(lambda: got(store, job).state == "running")
        store.delete(waiting.id)
        store.delete(job.id)
        await until(lambda: not JobFolder(tmp_path, job.id).path.exists())
        await until(lambda: not store.ids())
    assert not JobFolder(tmp_path, waiting.id).path.exists()


async def test_what_cannot_be_spoken_now_is_tried_again_and_can_be_resumed(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kokoro_server.longform.books.speaking.TRIES_OF_ABSENT", 1)
    job, backend = add_book(tmp_path, store, book(1, 2)), Tones()
    backend.failures = [G2PUnavailable("G2P is away") for _ in range(3)]
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).state == "done")
    other = add_book(tmp_path, store, book(1, 2))
    backend.failures = [G2PUnavailable("G2P is away") for _ in range(runners.MAX_ATTEMPTS)]
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, other).state == "failed")
        error = got(store, other).error
        assert error
        assert error["code"] == "g2p_unavailable"
        assert "tried 5 times" in error["message"]
        assert "G2P is away" in error["message"]
        store.resume(other.id)
        await until(lambda: got(store, other).state == "done")


async def test_a_job_waits_for_descriptors(tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def once_without(*arguments: Any) -> JsonObject:
        if not tries:
            tries.append(1)
            raise SetupError("a.wav: cannot be written") from OSError(errno.EMFILE, "Too many open files")
        return await make_list(*arguments)

    tries, make_list = list[int](), runners.make_list
    monkeypatch.setattr(runners, "make_list", once_without)
    job = add_list(tmp_path, store, {"id": "a", "text": "Sea."})
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: got(store, job).has_ended)
    assert got(store, job).state == "done"
    assert tries


async def test_a_job_that_ends_the_server_each_time_is_given_up(tmp_path: Path, store: JobStore) -> None:
    job = add_book(tmp_path, store, book())
    store.update(job.id, state="running", attempts=runners.MAX_ATTEMPTS)
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: got(store, job).has_ended)
    assert got(store, job).state == "failed"


async def test_jobs_expire_and_so_does_what_belongs_to_none(tmp_path: Path, store: JobStore) -> None:
    old, new = (add_book(tmp_path, store, book(1, 2)) for _ in range(2))
    store.update(old.id, state="done", finished=1.0, result={"seconds": 1, "files": [], "starts": {}, "notes": []})
    left_over, upload = (JobFolder(tmp_path, new_id()).path for _ in range(2))
    for path in (left_over, upload):
        path.mkdir()
    os.utime(left_over, (1, 1))
    async with running(runner(tmp_path, store, Tones(), keep_hours=1.0)):
        await until(lambda: got(store, new).has_ended and not left_over.exists())
        await until(lambda: not JobFolder(tmp_path, old.id).path.exists())
    assert store.get(old.id) is None
    assert upload.exists()


async def test_a_list(tmp_path: Path, store: JobStore) -> None:
    lines = [{"id": "a", "text": "One."}, {"id": "b", "text": "Two.", "format": "flac"}, {"id": "c", "speed": 9}]
    job = add_list(tmp_path, store, *lines)
    shards = add_list(tmp_path, store, *lines[:2], shards=2, format="flac")
    hopeless = add_list(tmp_path, store, lines[2])
    async with running(runner(tmp_path, store, Tones(), at_once=3)):
        await until(lambda: all(got(store, each).has_ended for each in (job, shards, hopeless)))
        await until(lambda: not JobFolder(tmp_path, job.id).work.exists())
    done = got(store, job)
    assert done.result
    assert done.result["notes"] == ["1 of 3 lines could not be made: failures.jsonl in the result says why"]
    assert (done.progress["lines"], done.progress["done"], done.progress["failed"]) == (3, 3, 1)
    names = zipfile.ZipFile(JobFolder(tmp_path, job.id).result / "x.zip").namelist()
    assert names == ["a.wav", "b.flac", "failures.jsonl", "manifest.jsonl"]
    assert zipfile.ZipFile(JobFolder(tmp_path, shards.id).result / "x.zip").namelist() == [
        "manifest.jsonl",
        "shard-000000.tar",
    ]
    failed = got(store, hopeless)
    assert failed.error
    assert failed.error["code"] == "invalid_input"
    assert "line 1" in failed.error["message"]


@pytest.mark.parametrize("options", [{}, {"shards": 2, "format": "flac"}])
async def test_lines_that_nobody_was_there_to_speak_are_tried_again(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    monkeypatch.setattr("kokoro_server.longform.bulk.makers.local.RETRY_AFTER", 0.01)
    backend = Tones()
    backend.failures = [G2PUnavailable("G2P is away") for _ in range(9)]
    lines = [{"id": str(number), "text": f"Line {number}."} for number in range(5)]
    job = add_list(tmp_path, store, *lines, {"id": "wrong", "speed": 9}, **options)
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).has_ended)
    done = got(store, job)
    assert done.result, done.error
    assert done.result["notes"] == ["1 of 6 lines could not be made: failures.jsonl in the result says why"]
    with zipfile.ZipFile(JobFolder(tmp_path, job.id).result / "x.zip") as archive:
        assert len(archive.read("manifest.jsonl").splitlines()) == 5
    away = add_list(tmp_path, store, *lines)
    backend.failures = [G2PUnavailable("G2P is away") for _ in range(2 * 5 * runners.MAX_ATTEMPTS)]
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, away).has_ended)
        failed = got(store, away)
        assert failed.error
        assert failed.error["code"] == "unavailable"
        assert "5 of 5 lines could not be spoken yet: G2P is away" in failed.error["message"]
        assert (failed.progress["done"], failed.progress["failed"], failed.progress["fraction"]) == (0, 0, 0.0)
        store.resume(away.id)
        await until(lambda: got(store, away).state == "done")


async def test_a_list_whose_end_cannot_be_stored_is_not_spoken_again(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(id: str, **changes: object) -> bool:
        if changes.get("state") == "done":
            tried.append(id)
            raise Unavailable("it is locked", retry_after=1)
        return update(id, **changes)

    update, tried, backend = store.update, list[str](), Tones()
    job = add_list(tmp_path, store, {"id": "a", "text": "One."}, {"id": "b", "text": "Two."})
    with monkeypatch.context() as patch:
        patch.setattr(store, "update", locked)
        async with running(runner(tmp_path, store, backend)):
            await until(lambda: len(tried) > 2)
    assert got(store, job).state == "running"
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).has_ended)
    assert got(store, job).state == "done"
    assert len(backend.spoken) == 2


async def test_a_full_disk_is_told_without_paths(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_book(tmp_path, store, book(1, 2))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kokoro_server.runtime.files.os.fsync", full)
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: got(store, job).has_ended)
    error = got(store, job).error
    assert error
    assert "No space left" in error["message"]
    assert str(tmp_path) not in error["message"]


async def test_a_disk_that_is_nearly_full_is_left_to_others(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, backend, is_full = add_book(tmp_path, store, book()), Held(1), [True]

    def check(_root: Path) -> None:
        if is_full[0]:
            raise Unavailable("the disk is nearly full")

    monkeypatch.setattr(runners, "check_space", check)
    monkeypatch.setattr(runners, "FULL_S", 0.1)
    async with running(runner(tmp_path, store, backend)):
        await until(lambda: got(store, job).progress.get("waiting") == "the disk is nearly full")
        assert not backend.spoken
        is_full[0] = False
        await until(lambda: got(store, job).progress.get("fraction", 0) > 0)
        is_full[0] = True
        await until(lambda: "waiting" in got(store, job).progress)
        assert got(store, job).state == "queued"
        is_full[0] = False
        for _ in range(10):
            backend._let.release()
        await until(lambda: got(store, job).state == "done")
