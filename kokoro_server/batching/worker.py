"""The loop that turns waiting entries into batches and runs them, one on the device at a time."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import CostModel, FrameEstimate, LearnedCap
from kokoro_server.batching.device import DeviceThread
from kokoro_server.batching.entry import Entry, FireReason, Outcome
from kokoro_server.batching.policy import Batch, Policy
from kokoro_server.batching.runner import Forward, Report, Runner
from kokoro_server.batching.stats import BatchRecord, Stats
from kokoro_server.batching.waiting import Waiting
from kokoro_server.engine.protocol import Result

logger = logging.getLogger(__name__)


class DeviceLost(Exception):
    """The device is poisoned: no further call in this process can succeed."""


class ForwardStuck(Exception):
    """A forward pass has exceeded the engine timeout and still holds the device thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The batch on the device."""

    entries: list[Entry]
    padded: int  # predicted
    reason: FireReason
    started: float


class Worker:
    """Takes batches when the device is free. `run` ends by itself only when stopping; what it raises is for its owner.

    No batch is formed while another runs: until the device is free, a batch can only get better.
    """

    def __init__(
        self, runner: Runner, waiting: Waiting, policy: Policy, stats: Stats, *, clock: Clock, engine_timeout: float
    ) -> None:
        self._runner = runner
        self._waiting = waiting
        self._policy = policy
        self._stats = stats
        self._clock = clock
        self._engine_timeout = engine_timeout
        self._wake = asyncio.Event()
        self._held = False
        self._backlog = False  # what waits gathered while the device was busy
        self._stopping = False
        self.running: Running | None = None
        self.estimate = FrameEstimate()
        self.costs = CostModel()
        self.cap = LearnedCap(policy.padded_frames)

    @property
    def held(self) -> bool:
        return self._held

    def hold(self) -> None:
        """Form no batch until `release`; the one on the device runs on."""
        self._held = True

    def release(self) -> None:
        self._held = False
        self._backlog = bool(self._waiting)
        self.wake()

    def stop(self) -> None:
        """End `run` after the batch on the device."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Look again: something arrived, or is no longer on its way."""
        self._wake.set()

    async def run(self, device: DeviceThread) -> None:
        # A batch lives in _run_one's frame only: an idle worker keeps no audio alive.
        while await self._run_one(device):
            pass

    async def _run_one(self, device: DeviceThread) -> bool:
        batch = await self._next_batch()
        if batch is None:
            return False
        self.running = batch
        report = await self._on_device(batch, device)
        self._settle(batch, report)
        self.running = None
        self._backlog = bool(self._waiting)
        return True

    async def _next_batch(self) -> Running | None:
        while not self._stopping:
            look_again: float | None = None
            if self._waiting and not self._held:
                now = self._clock.now()
                batch = self._policy.choose(self._waiting, cap=self.cap.frames, overhead=self.costs.overhead_frames)
                verdict = self._policy.verdict(batch, self._waiting, now=now, backlog=self._backlog)
                if isinstance(verdict, FireReason):
                    return self._take(batch, verdict, now)
                look_again = verdict
            await self._sleep(look_again)
        return None

    def _take(self, batch: Batch, reason: FireReason, now: float) -> Running:
        self._waiting.take(batch.entries)
        for entry in batch.entries:
            entry.stop_timer()
        return Running(batch.entries, batch.padded, reason, now)

    async def _sleep(self, until: float | None) -> None:
        self._wake.clear()
        timer = None if until is None else self._clock.call_at(until, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _on_device(self, batch: Running, device: DeviceThread) -> Report:
        done = device.call(partial(self._runner.run, batch.entries))
        self._watch(done, batch.started + self._engine_timeout)
        return await done

    def _watch(self, done: asyncio.Future[Any], due: float) -> None:
        """Give up on `done` when a forward pass takes too long; a batch with retries has several, timed one by one."""
        timer = self._clock.call_at(due, partial(self._check, done))
        done.add_done_callback(lambda _: timer.cancel())

    def _check(self, done: asyncio.Future[Any]) -> None:
        if done.done():
            return
        now = self._clock.now()
        started = self._runner.forward_started
        due = (now if started is None else started) + self._engine_timeout
        if now >= due:
            done.set_exception(ForwardStuck(f"a forward pass takes longer than {self._engine_timeout:g} s"))
        else:
            self._watch(done, due)

    def _settle(self, batch: Running, report: Report) -> None:
        seconds = self._clock.now() - batch.started
        for entry, result, forward in report.results:
            self.estimate.learn(entry.row, int(result.durations.sum()))
            if not entry.gone:
                entry.future.set_result(_outcome(entry, result, forward, batch))
        for entry, error in report.failures:
            entry.fail(error)
        self._learn(report)
        record = self._stats.record(batch.entries, batch.reason, started=batch.started, seconds=seconds, report=report)
        if logger.isEnabledFor(logging.INFO):
            _log(batch, record)
        if report.device_lost is not None:
            raise DeviceLost(report.device_lost)

    def _learn(self, report: Report) -> None:
        for forward in report.forwards:
            self.costs.learn(rows=forward.rows, frames=forward.frames, padded=forward.padded, seconds=forward.seconds)
        if report.did_not_fit is None:
            self.cap.recover()
        else:
            self.cap.lower(report.did_not_fit)
            logger.warning("out of memory padded_frames=%d learned_cap=%d", report.did_not_fit, self.cap.frames)


def _outcome(entry: Entry, result: Result, forward: Forward, batch: Running) -> Outcome:
    queue_ms = 1000 * (batch.started - entry.arrival)
    return Outcome(result, queue_ms, 1000 * forward.seconds, forward.rows, batch.reason)


def _log(batch: Running, record: BatchRecord) -> None:
    logger.info(
        "batch rows=%d voices=%d padding=%.2f wait_ms=%.1f run_ms=%.1f reason=%s",
        record.rows,
        len({entry.voice for entry in batch.entries}),
        record.padding,
        1000 * (batch.started - min(entry.arrival for entry in batch.entries)),
        1000 * record.seconds,
        record.reason.value,
    )
