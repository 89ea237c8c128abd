"""The shared queue: rows of any request go in, and each comes out of a forward pass that served many."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from kokoro_server.batching import traces
from kokoro_server.batching.admission import Admission
from kokoro_server.batching.clock import Clock, LoopClock
from kokoro_server.batching.cost import FRAME_SECONDS
from kokoro_server.batching.devices.pool import Devices
from kokoro_server.batching.entry import Entry, Outcome, Priority, Submission
from kokoro_server.batching.idle_unloader import Hooks, IdleUnloader, ModelState
from kokoro_server.batching.lane import Lane
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.model_slots import ModelSlot
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.batching.state import ModelSnapshot, QueueSnapshot
from kokoro_server.batching.stats import Stats
from kokoro_server.batching.supervisor import WorkerSupervisor
from kokoro_server.batching.tickets import Ticket
from kokoro_server.engine.protocol import Engine, Reloadable
from kokoro_server.errors import EngineUnavailable, Expired, TooBusy
from kokoro_server.observability.metrics import Metrics

# The keys of `by_priority`. Metrics and traces keep the names of the lanes.
LANE_KEYS = dict(zip(Priority, ("bypass", "following", "normal", "ahead", "bulk"), strict=True))


class BatchQueue(SpeechQueue):
    """Batches rows for one or more engines of the same model, each on a device.

    A device that hangs, or whose thread dies again and again, is given up; the other devices go on. A poisoned device
    needs a new process, as CUDA demands: `on_fatal` is called once, with the reason.

    While `model`, which made the engines, is unloaded, entries wait for it, and their deadlines are put off.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        options: BatchingOptions | None = None,
        *,
        model: Reloadable | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        on_fatal: Callable[[str], object] = lambda _reason: None,
        slot: ModelSlot | None = None,
    ) -> None:
        """`slot`: another model may take the place of this one in memory."""
        self.options = options or BatchingOptions()
        self._clock = clock or LoopClock()
        self._devices = Devices(engines, self.options, self._clock)
        self._waiting = PriorityLanes(by_voice=self.options.grouping == "voice")
        self._stats = Stats(metrics)
        self._admission = Admission(self.options, self._waiting, self._devices, self._clock)
        self._supervisor = WorkerSupervisor(self._devices, self._waiting, self._stats, self._clock, on_fatal)
        self._dispatcher = self._supervisor.dispatcher
        self._numbers = itertools.count()
        self._unloader: IdleUnloader | None = None
        if model is not None and (self.options.idle_unload or slot is not None):
            hooks = Hooks(self._may_unload, self._model_loaded, self._model_failed, self._supervisor.give_up)
            idle = self.options.idle_unload
            self._unloader = IdleUnloader(model, idle, self._devices, hooks, self._clock, metrics, slot)
        if metrics is not None:
            self._register(metrics)

    @property
    def alive(self) -> bool:
        return self._supervisor.alive

    @property
    def ready(self) -> bool:
        return self._supervisor.ready

    @property
    def max_batch_size(self) -> int:
        """Rows of one forward pass, as the options and the engines allow."""
        return max(device.policy.max_rows for device in self._devices)

    @property
    def busy(self) -> bool:
        return bool(self._waiting) or not self._devices.idle

    @property
    def max_rows(self) -> int:
        return self._devices.max_rows

    def now(self) -> float:
        return self._clock.now()

    async def start(self) -> None:
        self._supervisor.start()
        if self._unloader is not None:
            self._unloader.start()

    async def stop(self) -> None:
        """Fail the waiting entries with EngineUnavailable; batches on the devices get a few seconds to finish."""
        if self._unloader is not None:
            await self._unloader.stop()
        await self._supervisor.stop()

    def hold(self) -> None:
        """Form no batch until `release`. Batches on the devices run on."""
        self._dispatcher.hold()

    def release(self) -> None:
        self._dispatcher.release()

    @asynccontextmanager
    async def admission(self, ticket: Ticket | None = None) -> AsyncIterator[None]:
        with self.admit(ticket):
            yield

    @contextmanager
    def admit(self, ticket: Ticket | None = None) -> Iterator[None]:
        """`admission`, where nothing needs to be awaited."""
        ticket = ticket or self.ticket()
        with self.admit_text(ticket.caller, ticket.priority, ticket.first_deadline.admission, admitted=ticket.admitted):
            ticket.admitted = True
            yield

    @contextmanager
    def admit_text(self, owner: str, priority: Priority, deadline: float, *, admitted: bool) -> Iterator[None]:
        """`admission` of a text of the caller `owner`, predicted to start by `deadline`.

        `admitted`: another text of the same request has been.
        """
        self._refuse_if_closed()
        try:
            self._admission.check_size(owner, priority)
            if not admitted:  # the texts of one request are let in together, as the pieces of a long text are
                self._admission.check_wait(owner, priority, deadline)
                self._admission.check_queued_audio(owner, priority)
        except TooBusy:
            self._stats.rejected += 1
            raise
        self._waiting.expect(owner, priority)
        self._want_model()
        try:
            yield
        finally:
            self._waiting.arrived(owner, priority, self.now())
            self._dispatcher.wake()

    def predicted_wait(self, priority: Priority = Priority.NORMAL) -> float:
        """Seconds until a new last entry of that priority would start, by what recent batches took."""
        return self._admission.predicted_wait(priority)

    def real_time_factor(self) -> float | None:
        return self._devices.real_time_factor

    def speaks_early(self) -> bool:
        return self._devices.speaks_early

    def device_states(self) -> dict[str, str]:
        return {device.name: device.status for device in self._devices}

    def model_state(self) -> ModelSnapshot:
        return self._unloader.snapshot() if self._unloader is not None else {"state": ModelState.LOADED.value}

    async def state(self) -> QueueSnapshot:
        return self.snapshot()

    def snapshot(self) -> QueueSnapshot:
        """`state`, where nothing needs to be awaited."""
        return {
            "batching_enabled": self.options.enabled,
            "status": self._status(),
            "model": self.model_state(),
            "queue_status": {
                "current_size": len(self._waiting),
                "worker_running": self.ready,
                "paused": self._dispatcher.held,
                "preparing": self._waiting.expected,
                "queued_audio_s": round(sum(_seconds(self._waiting.lane(lane)) for lane in Priority), 3),
                "callers": self._waiting.callers,
                "running_rows": self._devices.running_rows,
                "by_priority": {name: len(self._waiting.lane(lane)) for lane, name in LANE_KEYS.items()},
                "voice_groups": dict(self._waiting.voices),
                "predicted_wait_ms": round(1000 * self.predicted_wait(), 3),
            },
            "devices": self._devices.snapshots(),
            "performance": self._stats.performance(),
            "config": {
                "max_batch_size": self.max_batch_size,
                "max_wait_ms": self.options.max_wait_ms,
                "min_wait_ms": self.options.min_wait_ms,
                "quiet_ms": self.options.quiet_ms,
                "max_queue_size": self.options.max_queue_size,
                "max_queued_seconds": self.options.max_queued_seconds,
                "max_padded_frames": max(device.policy.max_padded_frames for device in self._devices),
                "learned_max_padded_frames": min(device.cap.frames for device in self._devices),
                "grouping": self.options.grouping,
            },
        }

    def _status(self) -> str:
        if not self.ready:
            return "unhealthy"
        overloaded = (
            self._waiting.urgent >= self.options.max_queue_size or self.predicted_wait() > self.options.queue_timeout
        )
        impaired = any(device.status != "healthy" for device in self._devices.every())
        if overloaded or impaired or self._supervisor.crashes.recent(self.now()):
            return "degraded"
        return "healthy" if self.options.enabled else "disabled"

    def _register(self, metrics: Metrics) -> None:
        for priority in Priority:
            name, lane = priority.name.lower(), self._waiting.lane(priority)
            metrics.waiting.labels(name).set_function(lane.__len__)
            metrics.queued_audio.labels(name).set_function(partial(_seconds, lane))
        metrics.running.set_function(lambda: self._devices.running_rows)
        metrics.model_loaded.set_function(lambda: not self._is_away())
        for device in self._devices.every():
            metrics.watch_device(device.name, running=device.running_rows, up=device.is_up)
            metrics.devices.watch(device.name, device.busy_seconds, device.resources)

    def _refuse_if_closed(self) -> None:
        if not self.ready:
            raise EngineUnavailable("the synthesis engine is not running; see /health", retry_after=5.0)

    def enqueue(self, submission: Submission) -> asyncio.Future[Outcome]:
        self._refuse_if_closed()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        new, frames = submission, self._dispatcher.estimate.predict(submission.row)
        priority = Priority.AHEAD if new.runs_out > self.now() else new.priority
        identity = next(self._numbers), new.caller, new.row, new.voice, priority
        entry = Entry(*identity, frames, self.now(), new.deadline, future, new.detached)
        entry.runs_out, entry.needed_lane, entry.early = new.runs_out, new.priority, new.early
        if entry.deadline <= entry.arrival:
            self._expire(entry)
            return future
        if submission.trace is not None:
            entry.trace = traces.row_arrived(entry, submission.trace)
        self._watch_deadline(entry)
        future.add_done_callback(lambda _: self._ended(entry))
        self._waiting.add(entry)
        self._want_model()
        self._dispatcher.wake()
        return future

    def _is_away(self) -> bool:
        return self._unloader is not None and not self._unloader.loaded

    def _want_model(self) -> None:
        if self._unloader is not None:
            self._unloader.want()

    def _may_unload(self) -> bool:
        # A device that hangs still has its engine.
        all_up = all(device.is_up() for device in self._devices.every())
        return all_up and not self.busy and not self._waiting.expected

    def _model_loaded(self) -> None:
        """Put off deadlines by the time that entries waited for the model: all their time, as nothing waited before."""
        for entry in self._waiting:
            entry.deadline += self.now() - entry.arrival
            entry.cancel_timer()
            self._watch_deadline(entry)
        self._dispatcher.wake()

    def _model_failed(self, why: str) -> None:
        self._supervisor.fail_waiting(f"the model was unloaded and cannot be loaded again, {why}", retry_after=5.0)

    def _watch_deadline(self, entry: Entry) -> None:
        if math.isfinite(entry.deadline):
            entry.timer = self._clock.call_at(entry.deadline, lambda: self._is_due(entry))

    def _is_due(self, entry: Entry) -> None:
        if not self._is_away():  # otherwise its deadline is put off, or it fails with the load
            self._expire(entry)

    def _expire(self, entry: Entry) -> None:
        if not entry.done:
            self._stats.expired += 1
            waited = self.now() - entry.arrival
            entry.fail(Expired(f"not started within the {waited:.1f} s allowed; try again later", retry_after=1.0))

    def _ended(self, entry: Entry) -> None:
        entry.cancel_timer()
        self._waiting.discard(entry)
        self._stats.cancelled += entry.future.cancelled()
        if entry.trace is not None:
            traces.row_ended(entry.future, entry.trace)


def _seconds(lane: Lane) -> float:
    return lane.frames * FRAME_SECONDS
