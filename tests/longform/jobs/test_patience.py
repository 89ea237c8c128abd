"""How long a job is tried that nobody is there to speak."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.errors import G2PUnavailable, KokoroError
from kokoro_server.longform.jobs import runner as runners
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.runner import JobRunner
from tests.longform.books.doubles import Tones, book
from tests.longform.jobs.doubles import add_book, add_list, got, runner, stored_in, until

HALF_AN_HOUR = 1800.0


@pytest.mark.parametrize("kind", ["book", "list"])
async def test_a_job_is_tried_for_half_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    async def hurried(self: JobRunner, job: Job, seconds: float, error: KokoroError, **changes: Any) -> None:
        waits.append(seconds)
        await put_off(self, job, 0.0, error, **changes)

    async def passed(seconds: float) -> None:
        if seconds >= 1.0:  # what the tries of a passage or a line wait
            waits.append(seconds)
        await sleep(min(seconds, 0.01))

    put_off, sleep, waits, backend = JobRunner._put_off, asyncio.sleep, list[float](), Tones()
    monkeypatch.setattr(JobRunner, "_put_off", hurried)
    monkeypatch.setattr(runners, "LOOK_S", 0.01)
    backend.failures = [G2PUnavailable("G2P is away") for _ in range(1000)]
    with stored_in(tmp_path) as store:
        job = (
            add_book(tmp_path, store, book(1, 1))
            if kind == "book"
            else add_list(tmp_path, store, {"id": "a", "text": "x"})
        )
        monkeypatch.setattr(asyncio, "sleep", passed)
        task = asyncio.create_task(runner(tmp_path, store, backend).run())
        await until(lambda: got(store, job).has_ended)
        task.cancel()
        await asyncio.wait([task])
        assert got(store, job).state == "failed"
    if kind == "list":
        assert sum(waits[:6]) < 30  # a short outage costs little
    assert math.isclose(sum(waits), HALF_AN_HOUR, rel_tol=0.1)
