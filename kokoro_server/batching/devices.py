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
from kokoro_server.batching.runner import Report, Runner
from kokoro_server.batching.thread import DeviceThread
from kokoro_server.batching.waiting import Waiting
from kokoro_server.engine.protocol import Engine

logger = logging.getLogger(__name__)

MAX_DEATHS = 3  # within DEATH_WINDOW: starting again does not help
DEATH_WINDOW = 60.0  # seconds
HALF_LIFE = 10.0  # seconds after which a device's work counts half as much for its recent share


class ForwardStuck(Exception):
    """A forward pass has exceeded the engine timeout and still holds the device thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The batch on a device."""

    entries: list[Entry]
    padded: int  # predicted
    reason: FireReason
    started: float


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
    """One engine and the thread that runs it, one batch at a time. For the event loop."""

    def __init__(self, name: str, engine: Engine, options: BatchingOptions, clock: Clock) -> None:
        self.name = name
        self.policy = Policy(options, engine.limits)
        self.costs = CostModel()
        self.cap = LearnedCap(self.policy.padded_frames)
        self.deaths = Deaths()
        self.lost: str | None = None  # why it takes no batch any more
        self.running: Running | None = None
        self.batches = 0  # that came to their end, as in the queue's totals
        self.rows = 0
        self._runner = Runner(engine, clock)
        self._clock = clock
        self._engine_timeout = options.engine_timeout
        self._thread: DeviceThread | None = None
        self._work = 0.0  # seconds, fading
        self._created = self.last_worked = clock.now()

    @property
    def free(self) -> bool:
        return self.running is None and self.works()

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
        return len(self.running.entries) if self.running else 0

    def start(self) -> None:
        self._live_thread()

    def stop(self) -> None:
        """Let the thread end after the batch it is in."""
        if self._thread is not None:
            self._thread.stop()

    def choose(self, waiting: Waiting, rows: int | None = None) -> Batch:
        """The best batch that this device can take, of at most `rows`."""
        return self.policy.choose(waiting, cap=self.cap.frames, overhead=self.costs.overhead_frames, rows=rows)

    def run(self, batch: Running) -> asyncio.Future[Report]:
        """Raises ForwardStuck or DeviceThreadDied, through the future."""
        self.running = batch
        done = self._live_thread().call(partial(self._runner.run, batch.entries))
        self._watch(done, batch.started + self._engine_timeout)
        return done

    def finished(self, batch: Running) -> float:
        """Take note that it is done, well or not, and say how long it took."""
        now = self._clock.now()
        seconds = now - batch.started
        self._work, self.last_worked = self._recent_work(now) + seconds, now
        if self.running is batch:
            self.running = None
        return seconds

    def learn(self, batch: Running, report: Report) -> None:
        self.batches += 1
        self.rows += len(batch.entries)
        for forward in report.forwards:
            self.costs.learn(rows=forward.rows, frames=forward.frames, padded=forward.padded, seconds=forward.seconds)
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
        running = now - self.running.started if self.running else 0.0
        past = (1 - math.exp2((self._created - now) / HALF_LIFE)) * HALF_LIFE / math.log(2)  # seconds, faded alike
        return min(1.0, (self._recent_work(now) + running) / past) if past else 0.0

    def remaining_seconds(self, now: float) -> float:
        """Until the batch that it runs is done, as predicted."""
        if self.running is None:
            return 0.0
        return max(0.0, self.running.started + self.costs.batch_seconds(self.running.padded) - now)

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

    def _live_thread(self) -> DeviceThread:
        if self._thread is None or not self._thread.alive:
            self._thread = DeviceThread(asyncio.get_running_loop(), self.name)
        return self._thread

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


class Devices:
    """All devices of a queue, in the order they were given."""

    def __init__(self, engines: Sequence[Engine], options: BatchingOptions, clock: Clock) -> None:
        names = _names([engine.device for engine in engines])
        self._all = [Device(name, engine, options, clock) for name, engine in zip(names, engines, strict=True)]
        self._clock = clock

    def __iter__(self) -> Iterator[Device]:
        return iter(self._all)

    def free(self) -> list[Device]:
        """Those that could take a batch now: the least busy first, of equals the one idle longest."""
        free = [device for device in self._all if device.free]
        if len(free) > 1:
            now = self._clock.now()
            free.sort(key=lambda device: (round(device.busy_share(now), 2), device.last_worked))
        return free

    def working(self) -> list[Device]:
        return [device for device in self._all if device.works()]

    @property
    def idle(self) -> bool:
        return all(device.running is None for device in self._all)

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
