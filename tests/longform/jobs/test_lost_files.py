"""Files of jobs that are away, for a while or for good."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kokoro_server.api.schemas.jobs import BookRequest
from kokoro_server.config.settings import Settings
from kokoro_server.errors import Unavailable
from kokoro_server.longform.jobs import runner as runners
from kokoro_server.longform.jobs.folders import JobFolder
from kokoro_server.longform.jobs.job import JobKind
from kokoro_server.longform.jobs.service import Jobs
from kokoro_server.longform.jobs.store import JobStore
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import VoiceBook
from tests import tiny
from tests.longform.books.doubles import Tones, book
from tests.longform.jobs.doubles import add_book, add_list, got, runner, running, stored_in, until


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobStore]:
    monkeypatch.setattr(runners, "LOOK_S", 0.02)
    with stored_in(tmp_path) as store:
        yield store


async def test_what_cannot_be_looked_after_is_told_once(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[str]:
        looks.append(1)
        raise Unavailable("the store is away")

    looks, condition = list[int](), Condition(Reason.JOBS)
    with caplog.at_level(logging.ERROR):
        async with running(runner(tmp_path, store, Tones(), condition)):
            with monkeypatch.context() as patch:
                patch.setattr(store, "deleted", broken)
                await until(lambda: len(looks) > 5)
                assert condition.current
                assert "the store is away; check the folder that JOBS_PATH names" in condition.current.message
            await until(lambda: condition.current is None)
    assert len(caplog.records) == 1


async def test_the_folder_of_a_job_that_is_gone_is_told(tmp_path: Path, store: JobStore) -> None:
    jobs = [add_book(tmp_path, store, book()), add_list(tmp_path, store, {"id": "a", "text": "One."})]
    for job in jobs:
        JobFolder(tmp_path, job.id).remove()
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: all(got(store, job).has_ended for job in jobs))
    errors = [got(store, job).error for job in jobs]
    assert [error and error["message"] for error in errors] == [
        f"{name}: cannot be read: No such file or directory" for name in ("book.json", "upload.jsonl")
    ]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"chapters": [{"title": 5}]}'])
async def test_a_damaged_book_is_told(tmp_path: Path, store: JobStore, content: bytes) -> None:
    job = add_book(tmp_path, store, book())
    JobFolder(tmp_path, job.id).book.write_bytes(content)
    async with running(runner(tmp_path, store, Tones())):
        await until(lambda: got(store, job).has_ended)
    error = got(store, job).error
    assert error
    assert error["message"] == "book.json: is damaged, or of another version; send the document again"


@pytest.mark.parametrize(("name", "field"), [("ships.txt", "book.json"), ("ships.jsonl", "upload.jsonl")])
async def test_what_a_job_is_made_of_is_on_the_disk_before_the_job_is(
    tmp_path: Path, store: JobStore, monkeypatch: pytest.MonkeyPatch, name: str, field: str
) -> None:
    def fsync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, len(store.ids())))
        really(descriptor)

    really, synced = os.fsync, list[tuple[str, int]]()
    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "voices").mkdir()
    services = cast(Services, SimpleNamespace(voices=VoiceBook(tiny.write_voices(tmp_path / "voices"))))
    jobs = Jobs(tmp_path, store, services, Settings.load({}, dotenv=None), anyone=True)
    kind: JobKind = "book" if field == "book.json" else "list"
    options = BookRequest.model_validate({}).model_dump() if kind == "book" else {"voice": "af_heart"}
    async with jobs.uploading(name) as upload:
        upload.path.write_text('{"text": "Ships sailed."}\n')
        about = await jobs.describe(upload, options, keep=True)
        await jobs.add(upload, "ann", kind, options, about)
    assert (field, 0) in synced
