"""The loop that forms batches of the waiting entries and dispatches them to free devices."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial

from kokoro_server.batching import traces
from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import ForwardPass, FrameEstimate
from kokoro_server.batching.devices.device import Device, RunningBatch
from kokoro_server.batching.devices.pool import Devices
from kokoro_server.batching.devices.runner import BatchReport
from kokoro_server.batching.entry import URGENT, Entry, FireReason, Outcome, Priority
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.policy import Batch
from kokoro_server.batching.stats import BatchRecord, Stats
from kokoro_server.engine.protocol import Result
from kokoro_server.observability import tracing
from kokoro_server.runtime.loop_turns import LoopTurns

logger = logging.getLogger(__name__)

OnFault = Callable[[Device, RunningBatch, Exception], object]


class DeviceLost(Exception):
    """The device is poisoned: no further call in this process can succeed."""


class Dispatcher:
    """Dispatches batches to free devices. `run` ends by itself only after `stop`.

    No batch is formed before a device can use it: until then, arrivals can make it better. `on_fault` is called with a
    batch that its device failed on, and must answer its entries.
    """

    def __init__(self, devices: Devices, waiting: PriorityLanes, stats: Stats, clock: Clock, on_fault: OnFault) -> None:
        self._devices = devices
        self._waiting = waiting
        self._stats = stats
        self._clock = clock
        self._on_fault = on_fault
        self._wake = asyncio.Event()
        self.held = False  # whether `hold` is in force
        self._backlog = False  # whether the waiting entries gathered while every device was busy
        self._stopping = False
        self._turns = LoopTurns()  # in which finished bulk is delivered
        self.estimate = FrameEstimate()

    def hold(self) -> None:
        """Form no batch until `release`; those on the devices run on."""
        self.held = True

    def release(self) -> None:
        self.held = False
        self._backlog = bool(self._waiting)
        self.wake()

    def stop(self) -> None:
        """End `run` after the batches on the devices."""
        self._stopping = True
        self._turns.finish()
        self.wake()

    def wake(self) -> None:
        """Look again: an entry arrived, or a request that was expected has none."""
        self._wake.set()

    async def run(self) -> None:
        while not (self._stopping and self._devices.idle):
            await self._sleep(self._dispatch())

    async def _sleep(self, until: float | None) -> None:
        self._wake.clear()
        timer = None if until is None else self._clock.call_at(until, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _dispatch(self) -> float | None:
        """Give each free device a batch, if it is time. Returns when to look again, unless `wake` comes first."""
        shared: FireReason | None = None  # why the first batch fired: all free devices share the entries of that moment
        while self._waiting and not self.held and not self._stopping:
            now = self._clock.now()
            self._promote(now)
            if express := self._devices.free_express(self._waiting):
                # The next piece of a stream may come with its first one, whose audio it would delay.
                first = self._waiting.leader(URGENT).priority is Priority.BYPASS
                batch = express.form_batch(self._waiting, of=(Priority.BYPASS,) if first else URGENT)
                self._start(express, batch, FireReason.BYPASS, now)
                continue
            free = self._devices.free(self._waiting)
            if not free:
                return self._devices.available_at(self._waiting)
            device = free[0]
            lanes = self._devices.lanes(device, self._waiting)
            batch = device.form_batch(self._waiting, of=lanes)
            overhead = device.costs.overhead_seconds
            backlog = self._backlog or not device.idle
            decision = device.policy.fire_or_wait(batch, self._waiting, now=now, backlog=backlog, overhead=overhead)
            reason = decision if isinstance(decision, FireReason) else shared
            if reason is None:
                return float(decision)
            if reason is not FireReason.BYPASS:
                shared = reason
                if len(free) > 1:
                    batch = device.form_batch(self._waiting, self._rows_per_device(free), lanes)
            self._start(device, batch, reason, now)
        if not self._waiting:
            self._backlog = False
        return None

    def _promote(self, now: float) -> None:
        """Let the pieces of streams that are needed soon no longer wait behind other entries, if there are any."""
        ahead = len(self._waiting.lane(Priority.AHEAD))
        if 0 < ahead < len(self._waiting):
            first = self._waiting.leader([lane for lane in Priority if lane is not Priority.AHEAD])
            self._waiting.promote(lambda entry: self._devices.is_needed(entry, now, first.frames))

    def _rows_per_device(self, free: list[Device]) -> int:
        """Rows for each free device. No device is used for a share that would cost it less than its fixed cost."""
        overhead = max(device.costs.overhead_frames for device in free)
        shares = min(len(free), int(self._waiting.frames / overhead)) if overhead else len(free)
        return math.ceil(len(self._waiting) / max(1, shares))

    def _start(self, device: Device, batch: Batch, reason: FireReason, now: float) -> None:
        self._waiting.take(batch.entries)
        for entry in batch.entries:
            entry.cancel_timer()
        trace = traces.batch_started(batch.entries, now)
        running = RunningBatch(batch.entries, batch.cost, reason, now, trace)
        device.run(running).add_done_callback(partial(self._ended, device, running))
        if device.is_express:
            # Delivering bulk meanwhile would take the interpreter lock from the thread of this batch.
            self._turns.hold()

    def _ended(self, device: Device, batch: RunningBatch, done: asyncio.Future[BatchReport]) -> None:
        self._backlog = bool(self._waiting) and (self._backlog or not self._devices.free(self._waiting))
        seconds = device.finish(batch)
        if device.is_express and self._devices.express_idle:
            self._turns.release()
        try:
            report = done.result()
            device.learn(batch, report, alone=self._devices.ran_alone(device, batch))
            if self._backlog and report.device_lost is None:
                self._dispatch()  # first keep the device busy, then deliver its results
            self._deliver(device, batch, seconds, report)
            if report.device_lost is not None:
                raise DeviceLost(f"{device.name}: {report.device_lost}")
        except Exception as error:
            self._on_fault(device, batch, error)
            if batch.trace is not None:
                batch.trace.fail(tracing.reason(error))
        if batch.trace is not None:
            batch.trace.end()
        if self._waiting or self._stopping:
            self.wake()

    def _deliver(self, device: Device, batch: RunningBatch, seconds: float, report: BatchReport) -> None:
        # When the process is about to end, a result that waits for its turn might never be delivered.
        has_turns = not self._stopping and report.device_lost is None
        for entry, result, forward in report.results:
            outcome = _outcome(entry, result, forward, batch)
            if entry.priority is Priority.BULK and has_turns:
                self._turns.call(partial(self._hand_over, entry, outcome))
            else:
                self._hand_over(entry, outcome)
        for entry, error in report.failures:
            entry.fail(error)
        record = self._stats.record(batch, report, device=device.name, seconds=seconds)
        if batch.trace is not None:
            batch.trace.set(record.attributes)
        if logger.isEnabledFor(logging.INFO):
            _log(batch, record, device)

    def _hand_over(self, entry: Entry, outcome: Outcome) -> None:
        self.estimate.learn(entry.row, int(outcome.result.durations.sum()))
        entry.resolve(outcome)


def _outcome(entry: Entry, result: Result, forward: ForwardPass, batch: RunningBatch) -> Outcome:
    queue_ms = 1000 * (batch.started - entry.arrival)
    return Outcome(result, queue_ms, 1000 * forward.seconds, forward.rows, batch.reason)


def _log(batch: RunningBatch, record: BatchRecord, device: Device) -> None:
    logger.info(
        "batch rows=%d voices=%d padding=%.2f wait_ms=%.1f run_ms=%.1f reason=%s device=%s%s",
        record.rows,
        len({entry.voice for entry in batch.entries}),
        record.padding,
        1000 * (batch.started - min(entry.arrival for entry in batch.entries)),
        1000 * record.seconds,
        record.reason.value,
        device.name,
        traces.ids(batch.entries) if batch.trace is not None else "",
    )
