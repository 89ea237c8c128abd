"""The events of jobs, for all of their readers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kokoro_server.api.schemas.jobs import answer
from kokoro_server.errors import NoSuchJob, Unavailable
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.service import Jobs

LOOK_S = 0.5  # seconds between two reads of a job
KEEP_ALIVE_S = 15.0  # seconds without an event after which a comment is sent, so that proxies keep the connection


@dataclass(eq=False, slots=True)
class _Sight:
    """The latest event of a job."""

    job: Job
    version: int | None = None  # of the event; None: the job is gone
    event: str = ""
    has_ended: bool = False
    looked: float = float("-inf")
    readers: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Watches:
    """Writes each event once for all readers of a job: that of a book with thousands of chapters takes time."""

    def __init__(self) -> None:
        self._sights: dict[str, _Sight] = {}

    async def events(self, jobs: Jobs, job: Job, stopping: Callable[[], bool]) -> AsyncGenerator[str]:
        sent, seen = 0.0, None
        with self._watching(job) as sight:
            while True:
                await _look(sight, jobs)
                if sight.version is None:
                    yield "event: deleted\ndata: {}\n\n"
                    return
                if sight.version != seen:
                    seen, sent, has_ended = sight.version, time.monotonic(), sight.has_ended
                    yield sight.event
                    if has_ended:
                        return
                elif time.monotonic() - sent > KEEP_ALIVE_S:
                    yield ": keep-alive\n\n"
                    sent = time.monotonic()
                if stopping():
                    return
                await asyncio.sleep(LOOK_S)

    @contextmanager
    def _watching(self, job: Job) -> Iterator[_Sight]:
        sight = self._sights.setdefault(job.id, _Sight(job))
        sight.readers += 1
        try:
            yield sight
        finally:
            sight.readers -= 1
            if not sight.readers:
                del self._sights[job.id]


async def _look(sight: _Sight, jobs: Jobs) -> None:
    async with sight.lock:
        if time.monotonic() - sight.looked < LOOK_S / 2:  # another reader has just looked
            return
        try:
            version = await jobs.version(sight.job.id)
            if version is None or version != sight.version:
                job = await jobs.get(sight.job.id, sight.job.caller)
                event = await asyncio.to_thread(_event, job, jobs.keep_s)
                sight.version, sight.event, sight.has_ended = job.version, event, job.has_ended
        except NoSuchJob:
            sight.version = None
        except Unavailable:
            if not sight.event:
                raise  # no event is known yet; later, readers simply wait
        sight.looked = time.monotonic()


def _event(job: Job, keep_s: float) -> str:
    return f"event: job\ndata: {answer(job, keep_s).model_dump_json()}\n\n"
