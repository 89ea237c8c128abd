"""What the process that makes jobs finds when it begins."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kokoro_server.longform.jobs.runner import JobRunner
from tests.longform.books.doubles import Tones, book
from tests.longform.jobs.doubles import add_book, got, runner, stored_in, until


async def test_a_job_that_waits_for_another_is_not_told_as_running(tmp_path: Path) -> None:
    """Two were made at once, and then the server is started with JOBS_AT_ONCE=1."""
    with stored_in(tmp_path) as store:
        jobs = [add_book(tmp_path, store, book(1, 2)) for _ in range(2)]
        for job in jobs:
            store.update(job.id, state="running", started=1.0)
        made: JobRunner = runner(tmp_path, store, Tones(), at_once=1)
        await made._look()
        assert [got(store, job).state for job in jobs] == ["running", "queued"]
        task = asyncio.create_task(made.run())
        await until(lambda: all(got(store, job).state == "done" for job in jobs))
        task.cancel()
        await asyncio.wait([task])
