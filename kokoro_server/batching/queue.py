"""The shared queue: rows of any request go in, and each comes out of a forward pass that served many."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kokoro_server.batching.admission import Admission
from kokoro_server.batching.clock import Clock, LoopClock
from kokoro_server.batching.devices import Devices
from kokoro_server.batching.entry import Entry, Outcome, Priority
from kokoro_server.batching.jobs import Rows, in_order
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.stats import Stats
from kokoro_server.batching.supervisor import Supervisor
from kokoro_server.caller import caller
from kokoro_server.engine.protocol import Engine, Row
from kokoro_server.errors import EngineUnavailable, Expired, TooBusy
from kokoro_server.metrics import Metrics

JOB_BATCHES = 2  # batches' worth of its pieces that a job keeps in the queue


@dataclass(slots=True, eq=False)
class Job:
    """Pieces that belong to one request: they share its priority, its first deadline and its part of the queue."""

    priority: Priority
    bypass: int  # first pieces of each text, which have no waiting window
    urgent: int  # how many of those take the BYPASS lane; the others take NEXT
    first_deadline: float  # of the first piece alone: the clock of a later one starts when it is enqueued
    permits: asyncio.Semaphore  # one for each piece in the queue, or made and not yet taken
    caller: str  # whose turns its pieces take
    admitted: bool = False  # whether one of its texts has been
    begun: bool = False  # whether the first piece has been enqueued

    def lane(self, index: int) -> Priority:
        """The lane of the piece of that number, counted from 0, of one of its texts."""
        if index < self.bypass:
            return Priority.BYPASS if index < self.urgent else Priority.NEXT
        return self.priority


class BatchQueue:
    """Batches rows for one or more engines of the same model, each on a device. Create and use it on one event loop.

    Deadlines are on the clock of `now()` and bound the wait, not the run: an entry that has not started by then fails
    with Expired. Cancelling the task that awaits an entry takes the entry out of the queue.

    A device that hangs, or whose thread dies again and again, is given up; the others go on. A poisoned device needs a
    new process, as CUDA demands: `on_fatal` is called once, with the reason.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        options: BatchingOptions | None = None,
        *,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        on_fatal: Callable[[str], object] = lambda _reason: None,
    ) -> None:
        self.options = options or BatchingOptions()
        self._clock = clock or LoopClock()
        self._devices = Devices(engines, self.options, self._clock)
        self._waiting = PriorityLanes(by_voice=self.options.grouping == "voice")
        self._stats = Stats(metrics)
        self._admission = Admission(self.options, self._waiting, self._devices, self._clock)
        self._supervisor = Supervisor(self._devices, self._waiting, self._stats, self._clock, on_fatal)
        self._worker = self._supervisor.worker
        self._numbers = itertools.count()
        if metrics is not None:
            self._register(metrics)

    @property
    def alive(self) -> bool:
        """Liveness: false when only a restart of the process can help."""
        return self._supervisor.alive

    @property
    def ready(self) -> bool:
        """Readiness: whether `submit` takes anything."""
        return self._supervisor.ready

    @property
    def max_batch_size(self) -> int:
        """Rows of one forward pass, as the options and the engines allow."""
        return max(device.policy.max_rows for device in self._devices)

    def now(self) -> float:
        return self._clock.now()

    async def start(self) -> None:
        self._supervisor.start()

    async def stop(self) -> None:
        """Fail what waits with EngineUnavailable; what is on the devices gets a few seconds to finish."""
        await self._supervisor.stop()

    def hold(self) -> None:
        """Form no batch until `release`. What is on the devices runs on."""
        self._worker.hold()

    def release(self) -> None:
        self._worker.release()

    @contextmanager
    def admit(self, job: Job | None = None) -> Iterator[None]:
        """Enter before any work on a text; leave when its first row is ready to submit.

        Raises TooBusy, with the time to retry after, when the queue is full, the predicted wait is past the deadline,
        or the caller has too much in the queue. Inside, the text counts as on its way, and an idle device waits a
        little for it.
        """
        self._refuse_if_closed()
        job = job or self.job()
        try:
            self._admission.check(job.caller, job.priority, job.first_deadline)
            if not job.admitted:  # the texts of one request are let in together, as the pieces of a long text are
                self._admission.check_queued_audio(job.caller, job.priority)
        except TooBusy:
            self._stats.rejected += 1
            raise
        job.admitted = True
        self._waiting.expect(job.caller)
        try:
            yield
        finally:
            self._waiting.arrived(job.caller, self.now())
            self._worker.wake()

    async def submit(
        self, row: Row, *, voice: str, priority: Priority = Priority.NORMAL, deadline: float | None = None
    ) -> Outcome:
        """Wait for the row's audio. `voice` is its canonical spec, by which entries are grouped."""
        allowed = self._default_deadline(priority)
        until = allowed if deadline is None else min(allowed, deadline)
        return await self._enqueue(row, voice, priority, until, caller.get())

    def job(
        self,
        *,
        priority: Priority = Priority.NORMAL,
        bypass: int = 0,
        urgent: int = 1,
        deadline: float | None = None,
        ahead: int | None = None,
    ) -> Job:
        """A request of one or more texts, to be given to each `submit_job`: together they keep to one job's limit.

        The first `bypass` pieces of each text have no waiting window, and the first `urgent` of those go before all
        others. `ahead` is the limit of pieces in the queue or made and not yet taken; by default two batches' worth
        for every device.
        """
        latest = math.inf if deadline is None else deadline
        return Job(
            priority,
            bypass,
            urgent,
            first_deadline=min(latest, self._default_deadline(priority)),
            permits=asyncio.Semaphore(ahead or JOB_BATCHES * self._devices.max_rows),
            caller=caller.get(),
        )

    def submit_job(self, rows: Rows, *, voice: str, job: Job | None = None) -> AsyncGenerator[Outcome, None]:
        """The outcomes of a long text's rows, in order. Close the generator to abandon the rest.

        Only about two batches' worth of a job's pieces, for every device, wait at once. The first must start within
        the queue timeout, each other within the job timeout of when it was enqueued.
        """
        owner = job or self.job()

        def enqueue(index: int, row: Row) -> asyncio.Future[Outcome]:
            # Pieces are held until those before them have been taken, which a slow reader does slowly.
            return self._enqueue(row, voice, owner.lane(index), self._deadline(owner), owner.caller, detached=True)

        return in_order(rows, enqueue, owner.permits)

    async def submit_only(self, row: Row, voice: str, job: Job) -> Outcome:
        """`submit_job` for a text that is a single row."""
        async with job.permits:
            return await self._enqueue(row, voice, job.lane(0), self._deadline(job), job.caller)

    def later_deadline(self) -> float:
        """The deadline of a later piece that is enqueued now."""
        return self._default_deadline(Priority.BULK)

    def _deadline(self, job: Job) -> float:
        """The deadline of the job's next piece. Its client may have listened for an hour since the first one."""
        if job.begun:
            return self.later_deadline()
        job.begun = True
        return job.first_deadline

    def predicted_wait(self, priority: Priority = Priority.NORMAL) -> float:
        """Seconds until an entry behind all others of its priority would start, by what recent batches took."""
        return self._admission.predicted_wait(priority)

    def real_time_factor(self) -> float | None:
        """Seconds of computing for a second of audio, of a row that runs alone; None if no engine has measured it."""
        return self._devices.real_time_factor

    def device_states(self) -> dict[str, str]:
        """By device: healthy, degraded or lost."""
        return {device.name: device.status for device in self._devices}

    def snapshot(self) -> dict[str, Any]:
        """The state of the queue for the health page; the keys are part of the API."""
        return {
            "batching_enabled": self.options.enabled,
            "status": self._status(),
            "queue_status": {
                "current_size": len(self._waiting),
                "worker_running": self.ready,
                "held": self._worker.held,
                "on_their_way": self._waiting.expected,
                "callers": self._waiting.callers,
                "running_rows": self._devices.running_rows,
                "by_priority": {lane.name.lower(): len(self._waiting.lane(lane)) for lane in Priority},
                "voice_groups": dict(self._waiting.voices),
                "predicted_wait_ms": round(1000 * self.predicted_wait(), 3),
            },
            "devices": [device.snapshot() for device in self._devices],
            "performance": self._stats.performance(),
            "config": {
                "max_batch_size": self.max_batch_size,
                "max_wait_ms": self.options.max_wait_ms,
                "min_wait_ms": self.options.min_wait_ms,
                "quiet_ms": self.options.quiet_ms,
                "max_queue_size": self.options.max_queue_size,
                "max_queued_seconds": self.options.max_queued_seconds,
                "max_padded_frames": max(device.policy.max_padded_frames for device in self._devices),
                "learned_cap_frames": min(device.cap.frames for device in self._devices),
                "grouping": self.options.grouping,
            },
        }

    def _status(self) -> str:
        if not self.ready:
            return "unhealthy"
        overloaded = (
            len(self._waiting) >= self.options.max_queue_size or self.predicted_wait() > self.options.queue_timeout
        )
        impaired = any(device.status != "healthy" for device in self._devices)
        if overloaded or impaired or self._supervisor.crashes.recent(self.now()):
            return "degraded"
        return "healthy" if self.options.enabled else "disabled"

    def _register(self, metrics: Metrics) -> None:
        lanes = {lane.name.lower(): self._waiting.lane(lane).__len__ for lane in Priority}
        metrics.watch_queue(running=lambda: self._devices.running_rows, waiting=dict(lanes))
        for device in self._devices:
            metrics.watch_device(device.name, running=device.running_rows, up=device.is_up)
            metrics.watch_activity(device.name, busy_seconds=device.busy_seconds, resources=device.resources)

    def _default_deadline(self, priority: Priority) -> float:
        bulk = priority is Priority.BULK
        return self.now() + (self.options.job_timeout if bulk else self.options.queue_timeout)

    def _refuse_if_closed(self) -> None:
        if not self.ready:
            raise EngineUnavailable("the synthesis engine is not running; see /health", retry_after=5.0)

    def _enqueue(
        self, row: Row, voice: str, priority: Priority, deadline: float, owner: str, *, detached: bool = False
    ) -> asyncio.Future[Outcome]:
        self._refuse_if_closed()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        frames = self._worker.estimate.predict(row)
        number, now = next(self._numbers), self.now()
        entry = Entry(number, owner, row, voice, priority, frames, now, deadline, future, detached=detached)
        if deadline <= entry.arrival:
            self._expire(entry)
            return future
        entry.timer = self._clock.call_at(deadline, lambda: self._expire(entry))
        future.add_done_callback(lambda _: self._ended(entry))
        self._waiting.add(entry)
        self._worker.wake()
        return future

    def _expire(self, entry: Entry) -> None:
        if not entry.done:
            self._stats.expired += 1
            waited = self.now() - entry.arrival
            entry.fail(Expired(f"not started within the {waited:.1f} s allowed; try again later", retry_after=1.0))

    def _ended(self, entry: Entry) -> None:
        entry.cancel_timer()
        self._waiting.discard(entry)
        self._stats.cancelled += entry.future.cancelled()
