"""A device: its engine, the threads that call it, the batches it runs and its estimates."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import FRAME_SECONDS, CostModel, LearnedCap, RealTimeFactor
from kokoro_server.batching.devices.activity import BusyShare, CallActivity, percentiles
from kokoro_server.batching.devices.idle_work import IdleWork
from kokoro_server.batching.devices.runner import BatchReport, Runner
from kokoro_server.batching.devices.thread import DeviceThread
from kokoro_server.batching.devices.watch import PassWatch
from kokoro_server.batching.entry import ALL, Entry, FireReason, Priority
from kokoro_server.batching.faults import CrashHistory, audio_faults
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.policy import Batch, BatchingOptions, Policy
from kokoro_server.batching.state import DeviceSnapshot
from kokoro_server.engine.protocol import (
    COUNTED_RESOURCES,
    Engine,
    HasBackgroundWork,
    ReportsActivity,
    ReportsResources,
)
from kokoro_server.engine.rows import warmup_row
from kokoro_server.errors import BadAudio
from kokoro_server.observability import tracing

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span

logger = logging.getLogger(__name__)

HALF_LIFE = 10.0  # seconds after which a device's work counts half as much for its load
RECENT_GAPS = 256

# A batch is formed to take at most this share of the engine timeout. One that must take longer, a single long row on a
# slow machine, may take that much longer than predicted.
TIMEOUT_SHARE = 0.25

# For an engine that takes a second call: how long before the predicted end of a batch the next one is formed. This is
# enough to have its rows there in time, however busy the event loop is; formed earlier, it would miss later arrivals.
FORM_AHEAD = 0.003  # seconds
FORM_AHEAD_ERROR = 0.08  # of the running batch's time: a usual error of the prediction
FORM_AHEAD_SHARE = 0.5  # of the running batch's time, at most


@dataclass(frozen=True, slots=True, eq=False)
class RunningBatch:
    entries: list[Entry]
    cost: float  # predicted
    reason: FireReason
    started: float
    trace: Span | None = None  # if a row is traced


@dataclass(slots=True, eq=False)
class CallSlot:
    """A thread that calls the engine, and the batch it runs."""

    runner: Runner
    thread: DeviceThread | None = None
    batch: RunningBatch | None = None

    def live_thread(self, name: str) -> DeviceThread:
        if self.thread is None or not self.thread.alive:
            self.thread = DeviceThread(asyncio.get_running_loop(), name)
        return self.thread


class Device:
    """One engine and the threads that call it, one for each call in flight. Used on the event loop only.

    A batch behind another one is formed only when that is about to end: until then, arrivals can make it better.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        options: BatchingOptions,
        clock: Clock,
        speed: RealTimeFactor | None = None,
        present_factor: float = 0.0,
        beside: Device | None = None,
    ) -> None:
        """`speed` is shared by all devices of an engine that may be slow. `present_factor` is its pace until the first
        batch; 0: not known. `beside` is the device on the same card, if this one is express: while that has a batch, no
        background work is done.
        """
        self._beside = beside
        self.name = name
        self.speed = speed
        self.costs = CostModel(present_factor * FRAME_SECONDS)
        self.crashes = CrashHistory()
        self.lost: str | None = None  # the reason, once it takes no batch any more
        self.batches = 0  # finished ones, as in the queue's totals
        self.rows = 0
        self._busy_share = BusyShare(clock.now())
        self._busy_before = 0.0  # seconds, with engines that were detached
        self._resources_before: dict[str, float] = {}  # counters of those engines; they hold nothing any more
        self._gaps: deque[float] = deque(maxlen=RECENT_GAPS)  # seconds
        self._clock = clock
        self._options = options
        self._slots: list[CallSlot] = []
        self._spare_threads: list[DeviceThread] = []  # of an engine that was detached
        self.attach(engine)
        self._work = 0.0  # seconds, decaying with HALF_LIFE
        self._created = self.last_worked = clock.now()

    def attach(self, engine: Engine) -> None:
        """Run batches on this engine from `start` on."""
        self.policy = Policy(self._options, engine.limits)
        self.cap = LearnedCap(self.policy.max_padded_frames)
        calls = CallActivity(self._clock)
        runners = [Runner(engine, self._clock, calls) for _ in range(engine.limits.max_in_flight)]
        spare, self._spare_threads = self._spare_threads, []
        self._slots = [CallSlot(runner, spare.pop() if spare else None) for runner in runners]
        self._engine: Engine | None = engine
        self._activity: ReportsActivity | None = engine if isinstance(engine, ReportsActivity) else calls
        self._idle_work: IdleWork | None = None
        if isinstance(engine, HasBackgroundWork):
            self._idle_work = IdleWork(engine, self._clock, self._threads, self._may_work_ahead)

    def detach(self) -> list[DeviceThread]:
        """Let go of the engine, and take no batch until `attach`. To be called when it is idle.

        Returns its threads, which may be in a call of the engine. They serve the next engine: a thread in which graphs
        were captured leaves some megabytes behind when it ends.
        """
        self._stop_idle_work()
        threads = [slot.thread for slot in self._slots if slot.thread is not None and slot.thread.alive]
        self._busy_before = self.busy_seconds()
        self._resources_before = {
            name: value if name in COUNTED_RESOURCES else 0.0 for name, value in self.resources().items()
        }
        self._slots, self._engine, self._activity, self._idle_work = [], None, None, None
        self._spare_threads = list(threads)
        return threads

    @property
    def running(self) -> list[RunningBatch]:
        """The batch that it computes, and any behind it."""
        batches = [slot.batch for slot in self._slots if slot.batch is not None]
        return sorted(batches, key=lambda batch: batch.started)

    @property
    def idle(self) -> bool:
        return all(slot.batch is None for slot in self._slots)

    def _may_work_ahead(self) -> bool:
        return self.idle and self.is_up() and (self._beside is None or self._beside.idle)

    @property
    def status(self) -> str:
        """`degraded`: memory ran out, or its thread died, not long ago. `lost`: it takes no batch any more."""
        if not self.is_up():
            return "lost"
        return "degraded" if self.cap.lowered or self.crashes.recent(self._clock.now()) else "healthy"

    def is_up(self) -> bool:
        return self.lost is None

    @property
    def is_express(self) -> bool:
        return self._beside is not None

    @property
    def has_room(self) -> bool:
        return self.is_up() and any(slot.batch is None for slot in self._slots)

    @property
    def runs_bulk(self) -> bool:
        return any(entry.priority is Priority.BULK for batch in self.running for entry in batch.entries)

    def running_rows(self) -> int:
        return sum(len(batch.entries) for batch in self.running)

    def available_at(self) -> float:
        """From when it is predicted to take another batch: -inf if idle, inf if lost or if it has no free thread."""
        if not self.has_room:
            return math.inf
        if self.idle:
            return -math.inf
        last = self.costs.batch_seconds(self.running[-1].cost)
        ahead = max(FORM_AHEAD, FORM_AHEAD_ERROR * last)
        return self._predicted_end() - min(ahead, FORM_AHEAD_SHARE * last)

    def start(self) -> None:
        self._threads()
        if self._idle_work is not None:
            self._idle_work.start()

    def stop(self) -> None:
        """Let each thread end after the batch it is in."""
        self._stop_idle_work()
        for thread in (*self._spare_threads, *(slot.thread for slot in self._slots)):
            if thread is not None:
                thread.stop()

    def _stop_idle_work(self) -> None:
        if self._idle_work is not None:
            self._idle_work.stop()

    def drop_running(self) -> None:
        """Forget what it runs, without waiting for it."""
        for slot in self._slots:
            slot.batch = None

    def form_batch(self, waiting: PriorityLanes, rows: int | None = None, of: Container[Priority] = ALL) -> Batch:
        """The best batch of these lanes that this device can take, of at most `rows`."""
        seconds = TIMEOUT_SHARE * self._options.engine_timeout
        in_time = self.costs.frames_within(seconds / max(1.0, self.costs.slowdown()))
        cap = self.cap.frames if in_time >= self.cap.frames else max(1, int(in_time))
        return self.policy.form_batch(waiting, cap=cap, overhead=self.costs.overhead_frames, rows=rows, of=of)

    def run(self, batch: RunningBatch) -> asyncio.Future[BatchReport]:
        """Start it on a free thread. The future may raise ForwardStuck or DeviceThreadDied."""
        slot = next(slot for slot in self._slots if slot.batch is None)
        slot.batch = batch
        self._busy_share.sample(batch.started, self.busy_seconds())
        done = slot.live_thread(self.name).call(tracing.within(batch.trace, partial(slot.runner.run, batch.entries)))
        seconds = self.costs.slowdown() * self.costs.batch_seconds(batch.cost)
        timeout = max(self._options.engine_timeout, seconds / TIMEOUT_SHARE)
        PassWatch(done, slot.runner, timeout, self._clock, self._computing(slot))
        return done

    def _computing(self, slot: CallSlot) -> Callable[[], float | None]:
        """How long the slot's thread has computed. Other devices than a CPU compute elsewhere, and are waited for."""
        if slot.thread is None or self._engine is None or not self._engine.device.startswith("cpu"):
            return lambda: None
        return slot.thread.computing

    def recheck(self, recovered: Callable[[], None]) -> None:
        """Speak a row on each thread, once its hanging call returns; call `recovered` when all have done so."""
        checks = [slot.live_thread(self.name).call(self._check_row) for slot in self._slots]

        def checked(_: asyncio.Future[Any]) -> None:
            if all(check.done() and not check.cancelled() and check.exception() is None for check in checks):
                recovered()

        for check in checks:
            check.add_done_callback(checked)

    def _check_row(self) -> None:
        assert self._engine is not None
        [result] = self._engine.synthesize([warmup_row()])
        if (fault := audio_faults([warmup_row()], [result])[0]) is not None:
            raise BadAudio(f"{self.name} gives {fault}")

    def finish(self, batch: RunningBatch) -> float:
        """The batch has ended, well or not. Returns the seconds it took."""
        now = self._clock.now()
        seconds = now - max(batch.started, self.last_worked)
        self._work, self.last_worked = self._recent_work(now) + seconds, now
        self._busy_share.sample(now, self.busy_seconds())
        for slot in self._slots:
            if slot.batch is batch:
                slot.batch = None
        if self._idle_work is not None:
            self._idle_work.batch_ended()
        return seconds

    def _threads(self) -> list[DeviceThread]:
        return [slot.live_thread(self.name) for slot in self._slots]

    def learn(self, batch: RunningBatch, report: BatchReport, *, alone: bool) -> None:
        """`alone`: no other device worked while it ran the batch."""
        self.batches += 1
        self.rows += len(batch.entries)
        self._gaps.extend(report.gaps)
        for forward in report.forwards:
            self.costs.learn(forward)
            if self.speed is not None:
                self.speed.learn(forward, alone=alone)
        if report.oom_frames is None:
            self.cap.recover()
        else:
            self.cap.lower(report.oom_frames)
            logger.warning(
                "out of memory device=%s padded_frames=%d learned_cap=%d", self.name, report.oom_frames, self.cap.frames
            )

    def busy_seconds(self) -> float:
        """Total working time, as measured by the engine or by its calls."""
        return self._busy_before + (self._activity.busy_seconds() if self._activity else 0.0)

    def resources(self) -> dict[str, float]:
        before = self._resources_before
        if not isinstance(self._engine, ReportsResources):
            return before
        return {name: value + before.get(name, 0.0) for name, value in self._engine.resources().items()}

    def load(self, now: float) -> float:
        """The share of the recent past in which it had a batch, by which devices are chosen.

        It counts from dispatch to delivery, so it is more than the time that the device worked.
        """
        running = now - max(batches[0].started, self.last_worked) if (batches := self.running) else 0.0
        past = (1 - math.exp2((self._created - now) / HALF_LIFE)) * HALF_LIFE / math.log(2)  # seconds, decayed alike
        return min(1.0, (self._recent_work(now) + running) / past) if past else 0.0

    def slowdown(self, now: float) -> float:
        """How many times longer than on average its batches take now."""
        if not (batches := self.running):
            return self.costs.slowdown()
        return self.costs.slowdown(batches[0].cost, now - max(batches[0].started, self.last_worked))

    def remaining_seconds(self, now: float) -> float:
        """Until its batches are done, by its present pace."""
        return max(0.0, self._predicted_end(self.slowdown(now)) - now)

    def snapshot(self) -> DeviceSnapshot:
        now, busy_seconds, resources = self._clock.now(), self.busy_seconds(), self.resources()
        snapshot: DeviceSnapshot = {
            "device": self.name,
            "status": self.status,
            "batches": self.batches,
            "rows": self.rows,
            "running_rows": self.running_rows(),
            "busy_share": round(self._busy_share.value(now, busy_seconds), 3),
            "busy_seconds": round(busy_seconds, 3),
            "idle_gap_ms": percentiles([1000 * gap for gap in self._gaps], (50, 95)),
            "max_batch_size": self.policy.max_rows,
            "max_padded_frames": self.policy.max_padded_frames,
            "learned_max_padded_frames": self.cap.frames,
        }
        if self.lost:
            snapshot["error"] = self.lost
        if self.speed:
            snapshot["real_time_factor"] = round(self.speed.value, 3)
        if resources:
            snapshot["resources"] = resources
        return snapshot

    def _recent_work(self, now: float) -> float:
        return self._work * math.exp2((self.last_worked - now) / HALF_LIFE)

    def _predicted_end(self, slowdown: float = 1.0) -> float:
        """When its batches should be done; in the past if it runs none."""
        end = self.last_worked
        for batch in self.running:
            end = max(end, batch.started) + slowdown * self.costs.batch_seconds(batch.cost)
        return end
