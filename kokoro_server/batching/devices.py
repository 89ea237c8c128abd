"""The devices behind the queue: what each can take, is doing, has learned and has done."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import CostModel, LearnedCap
from kokoro_server.batching.entry import Entry, FireReason
from kokoro_server.batching.policy import Batch, BatchingOptions, Policy
from kokoro_server.batching.runner import Pace, Report, Runner
from kokoro_server.batching.thread import DeviceThread
from kokoro_server.batching.waiting import Waiting
from kokoro_server.engine.protocol import Engine

logger = logging.getLogger(__name__)

MAX_DEATHS = 3  # within DEATH_WINDOW: starting again does not help
DEATH_WINDOW = 60.0  # seconds
HALF_LIFE = 10.0  # seconds after which a device's work counts half as much for its recent share

# Of an engine that takes a second call: how long before the end of a batch the next is formed. Enough to have its rows
# there in time, however busy the event loop is; any earlier, it would only miss those who come later.
LEAD = 0.003  # seconds
LEAD_SHARE = 0.5  # and no more of the batch than this


class ForwardStuck(Exception):
    """A forward pass has exceeded the engine timeout and still holds the device thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The batch on a device."""

    entries: list[Entry]
    cost: float  # predicted
    reason: FireReason
    started: float


@dataclass(slots=True, eq=False)
class Slot:
    """A thread that calls the engine, and what it is at."""

    runner: Runner
    thread: DeviceThread | None = None
    batch: Running | None = None

    def live_thread(self, name: str) -> DeviceThread:
        if self.thread is None or not self.thread.alive:
            self.thread = DeviceThread(asyncio.get_running_loop(), name)
        return self.thread


class Deaths:
    """When something died, and whether it does so too often."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MAX_DEATHS)

    def add(self, now: float) -> None:
        self._times.append(now)

    def recent(self, now: float) -> bool:
        return any(now - death < DEATH_WINDOW for death in self._times)

    @property
    def too_many(self) -> bool:
        return len(self._times) == MAX_DEATHS and self._times[-1] - self._times[0] < DEATH_WINDOW


class Device:
    """One engine and the threads that run it: one for each call that it takes at a time. For the event loop.

    A batch behind another one is formed only when that is about to end: until then, it can only get better.
    """

    def __init__(self, name: str, engine: Engine, options: BatchingOptions, clock: Clock) -> None:
        self.name = name
        self.policy = Policy(options, engine.limits)
        self.costs = CostModel()
        self.cap = LearnedCap(self.policy.padded_frames)
        self.deaths = Deaths()
        self.lost: str | None = None  # why it takes no batch any more
        self.batches = 0  # that came to their end, as in the queue's totals
        self.rows = 0
        pace = Pace()
        self._slots = [Slot(Runner(engine, clock, pace)) for _ in range(engine.limits.max_in_flight)]
        self._clock = clock
        self._engine_timeout = options.engine_timeout
        self._work = 0.0  # seconds, fading
        self._created = self.last_worked = clock.now()

    @property
    def running(self) -> list[Running]:
        """The batch that it is at, and any behind it."""
        batches = [slot.batch for slot in self._slots if slot.batch is not None]
        return sorted(batches, key=lambda batch: batch.started)

    @property
    def idle(self) -> bool:
        return all(slot.batch is None for slot in self._slots)

    @property
    def status(self) -> str:
        """`degraded`: memory ran out, or its thread died, not long ago. `lost`: it takes nothing any more."""
        if not self.works():
            return "lost"
        return "degraded" if self.cap.lowered or self.deaths.recent(self._clock.now()) else "healthy"

    @property
    def budget(self) -> int:
        """Padded frames that a batch may have."""
        return min(self.policy.padded_frames, self.cap.frames)

    def works(self) -> bool:
        return self.lost is None

    def running_rows(self) -> int:
        return sum(len(batch.entries) for batch in self.running)

    def opens(self) -> float:
        """When it takes another batch, if nothing unforeseen happens: long ago, in a while, or not before one ends."""
        if not self.works() or all(slot.batch is not None for slot in self._slots):
            return math.inf
        if self.idle:
            return -math.inf
        last = self.costs.batch_seconds(self.running[-1].cost)
        return self._until() - min(LEAD, LEAD_SHARE * last)

    def start(self) -> None:
        for slot in self._slots:
            slot.live_thread(self.name)

    def stop(self) -> None:
        """Let each thread end after the batch it is in."""
        for slot in self._slots:
            if slot.thread is not None:
                slot.thread.stop()

    def forget(self) -> None:
        """What it runs, without waiting for it."""
        for slot in self._slots:
            slot.batch = None

    def choose(self, waiting: Waiting, rows: int | None = None) -> Batch:
        """The best batch that this device can take, of at most `rows`."""
        return self.policy.choose(waiting, cap=self.cap.frames, overhead=self.costs.overhead_frames, rows=rows)

    def run(self, batch: Running) -> asyncio.Future[Report]:
        """Raises ForwardStuck or DeviceThreadDied, through the future."""
        slot = next(slot for slot in self._slots if slot.batch is None)
        slot.batch = batch
        done = slot.live_thread(self.name).call(partial(slot.runner.run, batch.entries))
        self._watch(done, slot.runner, batch.started + self._engine_timeout)
        return done

    def finished(self, batch: Running) -> float:
        """Take note that it is done, well or not, and say how long it took."""
        now = self._clock.now()
        seconds = now - max(batch.started, self.last_worked)
        self._work, self.last_worked = self._recent_work(now) + seconds, now
        for slot in self._slots:
            if slot.batch is batch:
                slot.batch = None
        return seconds

    def learn(self, batch: Running, report: Report) -> None:
        self.batches += 1
        self.rows += len(batch.entries)
        for forward in report.forwards:
            self.costs.learn(
                rows=forward.rows,
                frames=forward.frames,
                padded=forward.padded,
                cost=forward.cost,
                seconds=forward.seconds,
            )
        if report.did_not_fit is None:
            self.cap.recover()
        else:
            self.cap.lower(report.did_not_fit)
            logger.warning(
                "out of memory device=%s padded_frames=%d learned_cap=%d",
                self.name,
                report.did_not_fit,
                self.cap.frames,
            )

    def busy_share(self, now: float) -> float:
        """Of the recent past, the part in which it worked."""
        running = now - max(batches[0].started, self.last_worked) if (batches := self.running) else 0.0
        past = (1 - math.exp2((self._created - now) / HALF_LIFE)) * HALF_LIFE / math.log(2)  # seconds, faded alike
        return min(1.0, (self._recent_work(now) + running) / past) if past else 0.0

    def remaining_seconds(self, now: float) -> float:
        """Until what it runs is done, as predicted."""
        return max(0.0, self._until() - now)

    def snapshot(self) -> dict[str, Any]:
        now = self._clock.now()
        return {
            "device": self.name,
            "status": self.status,
            **({"error": self.lost} if self.lost else {}),
            "batches": self.batches,
            "rows": self.rows,
            "running_rows": self.running_rows(),
            "busy_share": round(self.busy_share(now), 3),
            "max_batch_size": self.policy.rows,
            "max_padded_frames": self.policy.padded_frames,
            "learned_cap_frames": self.cap.frames,
        }

    def _recent_work(self, now: float) -> float:
        return self._work * math.exp2((self.last_worked - now) / HALF_LIFE)

    def _until(self) -> float:
        """When what it runs is done, as predicted; in the past where that is nothing."""
        end = self.last_worked
        for batch in self.running:
            end = max(end, batch.started) + self.costs.batch_seconds(batch.cost)
        return end

    def _watch(self, done: asyncio.Future[Any], runner: Runner, due: float) -> None:
        """Give up on `done` when a forward pass takes too long; a batch with retries has several, timed one by one."""
        timer = self._clock.call_at(due, partial(self._check, done, runner))
        done.add_done_callback(lambda _: timer.cancel())

    def _check(self, done: asyncio.Future[Any], runner: Runner) -> None:
        if done.done():
            return
        now = self._clock.now()
        started = runner.forward_started
        due = (now if started is None else started) + self._engine_timeout
        if now >= due:
            done.set_exception(ForwardStuck(f"a forward pass takes longer than {self._engine_timeout:g} s"))
        else:
            self._watch(done, runner, due)


class Devices:
    """All devices of a queue, in the order they were given."""

    def __init__(self, engines: Sequence[Engine], options: BatchingOptions, clock: Clock) -> None:
        names = _names([engine.device for engine in engines])
        self._all = [Device(name, engine, options, clock) for name, engine in zip(names, engines, strict=True)]
        self._clock = clock

    def __iter__(self) -> Iterator[Device]:
        return iter(self._all)

    def free(self) -> list[Device]:
        """Those that could take a batch now: idle ones first, then the least busy, of equals the one idle longest."""
        now = self._clock.now()
        free = [device for device in self._all if device.opens() <= now]
        if len(free) > 1:
            free.sort(key=lambda device: (not device.idle, round(device.busy_share(now), 2), device.last_worked))
        return free

    def opens(self) -> float | None:
        """When one will take another batch, where that is foreseen."""
        soonest = min(device.opens() for device in self._all)
        return soonest if math.isfinite(soonest) else None

    def working(self) -> list[Device]:
        return [device for device in self._all if device.works()]

    @property
    def idle(self) -> bool:
        return all(device.idle for device in self._all)

    @property
    def rows(self) -> int:
        """That all can work on at once."""
        return sum(device.policy.rows for device in self._all)

    @property
    def running_rows(self) -> int:
        return sum(device.running_rows() for device in self._all)

    def wait_seconds(self, *, rows: int, frames: float, unknown_rows: int) -> float:
        """Until the devices together have worked off what is given, and one is free; 0 while their speed is unknown."""
        working = self.working()
        if not working:
            return 0.0
        alone = [
            device.costs.backlog_seconds(
                rows=rows,
                frames=frames,
                unknown_rows=unknown_rows,
                max_rows=device.policy.rows,
                budget=device.budget,
            )
            for device in working
        ]
        known = [seconds for seconds in alone if seconds]  # the others are taken to be as fast
        together = len(known) / len(working) / sum(1 / seconds for seconds in known) if known else 0.0
        return together + min(device.remaining_seconds(self._clock.now()) for device in working)


def _names(devices: Sequence[str]) -> list[str]:
    """A device that is there several times gets a number: cuda:0, cuda:0#2."""
    seen: Counter[str] = Counter()
    names = []
    for device in devices:
        seen[device] += 1
        names.append(device if seen[device] == 1 else f"{device}#{seen[device]}")
    return names
