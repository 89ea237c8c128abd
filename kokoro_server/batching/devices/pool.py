"""All devices of the queue: which of them is free, and how long they take together for the waiting entries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import RealTimeFactor
from kokoro_server.batching.devices.device import Device, RunningBatch
from kokoro_server.batching.devices.thread import DeviceThread
from kokoro_server.batching.entry import ALL, URGENT, Entry, Priority
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.state import DeviceSnapshot
from kokoro_server.engine.protocol import Engine, HasExpress, MeasuresSpeed, SpeaksEarly

# The next piece of a stream is made before its listener runs out of audio by this factor of the predicted time, and by
# this many seconds: for whatever else the machine does meanwhile.
AHEAD_FACTOR = 1.5
AHEAD_SECONDS = 1.0
EXPRESS_BATCHES = 2  # that may wait for an express device before the devices beside it help


class Devices:
    """All devices of a queue, in the order of the engines.

    An engine that computes calls side by side is several devices, each of which does one at a time. An engine that has
    an express engine has a second device for it: while the first is at work on bulk, that takes all other entries.
    """

    def __init__(self, engines: Sequence[Engine], options: BatchingOptions, clock: Clock) -> None:
        parallel = [options.parallel_limit(engine.limits) for engine in engines]
        names = iter(_names([e.device for e, calls in zip(engines, parallel, strict=True) for _ in range(calls)]))
        self._by_engine: list[list[Device]] = []
        for engine, calls in zip(engines, parallel, strict=True):
            measured = _measured_speed(engine)
            self._by_engine.append([Device(next(names), engine, options, clock, *measured) for _ in range(calls)])
        self._all = [device for devices in self._by_engine for device in devices]
        # As measured at the start, of the slowest engine that may be slow. It never changes.
        self.real_time_factor = max((device.speed.value for device in self._all if device.speed), default=None)
        self.speaks_early = all(isinstance(engine, SpeaksEarly) and engine.speaks_early for engine in engines)
        self._express: dict[Device, Device] = {}
        self._options = options
        self._clock = clock
        self._attach_express(engines)

    def _attach_express(self, engines: Sequence[Engine]) -> None:
        for [device, *_], engine in zip(self._by_engine, engines, strict=True):
            express = engine.express if isinstance(engine, HasExpress) and self._options.enabled else None
            if express is None:
                self._express.pop(device, None)
            elif device in self._express:
                self._express[device].attach(express)
            else:
                name = f"{device.name} express"
                self._express[device] = Device(name, express, self._options, self._clock, beside=device)

    def every(self) -> list[Device]:
        """With those for express engines."""
        return [*self._all, *self._express.values()]

    def __iter__(self) -> Iterator[Device]:
        return iter(self._all)

    def attach(self, engines: Sequence[Engine]) -> None:
        """Give each device its engine again, and start it. There must be as many as at first."""
        for devices, engine in zip(self._by_engine, engines, strict=True):
            for device in devices:
                device.attach(engine)
        self._attach_express(engines)
        for device in self.every():
            device.start()

    def detach(self) -> list[DeviceThread]:
        """Let go of all engines; see `Device.detach`."""
        return [thread for device in self.every() for thread in device.detach()]

    @property
    def last_worked(self) -> float:
        return max(device.last_worked for device in self.every())

    def free_express(self, waiting: PriorityLanes) -> Device | None:
        """One for an express engine that takes a batch now, beside bulk. None while another device is idle."""
        if not waiting.urgent or any(device.idle and device.is_up() for device in self._all):
            return None
        beside = (express for device, express in self._express.items() if device.is_up() and device.runs_bulk)
        return next((express for express in beside if express.has_room and _has_work(express, waiting)), None)

    def lanes(self, device: Device, waiting: PriorityLanes) -> Container[Priority]:
        """Those that it takes a batch from."""
        return (Priority.BULK,) if self._is_for_bulk(device, waiting) else ALL

    def _is_for_bulk(self, device: Device, waiting: PriorityLanes) -> bool:
        """Whether its express device takes all other entries. A crowd would wait too long for that device alone."""
        express = self._express.get(device)
        if express is None or not express.is_up() or not device.runs_bulk:
            return False
        if waiting.urgent and not _has_work(express, waiting):
            return False
        return waiting.urgent <= EXPRESS_BATCHES * express.policy.max_rows

    def free(self, waiting: PriorityLanes) -> list[Device]:
        """Devices that take a batch now: idle ones first, then the least busy, then the one that is idle longest."""
        now = self._clock.now()
        free = [device for device in self._all if self._available_at(device, waiting) <= now]
        if len(free) > 1:
            free.sort(key=lambda device: (not device.idle, round(device.load(now), 2), device.last_worked))
        return free

    def available_at(self, waiting: PriorityLanes) -> float | None:
        """When the next device will take a batch, if that can be predicted."""
        soonest = min(self._available_at(device, waiting) for device in self._all)
        return soonest if math.isfinite(soonest) else None

    def _available_at(self, device: Device, waiting: PriorityLanes) -> float:
        if not self._is_for_bulk(device, waiting):
            return device.available_at()
        bulk = len(waiting.lane(Priority.BULK))
        if bulk >= device.policy.bulk_rows(waiting) and device.has_room:
            return -math.inf  # a full batch of bulk gets no better by waiting
        return device.available_at() if bulk else math.inf

    def up(self) -> list[Device]:
        return [device for device in self._all if device.is_up()]

    @property
    def idle(self) -> bool:
        return all(device.idle for device in self.every())

    @property
    def express_idle(self) -> bool:
        return all(express.idle for express in self._express.values())

    @property
    def max_rows(self) -> int:
        return sum(device.policy.max_rows for device in self._all)

    @property
    def running_rows(self) -> int:
        return sum(device.running_rows() for device in self.every())

    def snapshots(self) -> list[DeviceSnapshot]:
        found = [device.snapshot() for device in self._all]
        for device, snapshot in zip(self._all, found, strict=True):
            if device in self._express:
                snapshot["express"] = self._express[device].snapshot()
        return found

    def ran_alone(self, device: Device, batch: RunningBatch) -> bool:
        """Whether no other device worked while this one ran the batch, which has just ended."""
        return all(other.idle and other.last_worked <= batch.started for other in self._all if other is not device)

    def is_needed(self, entry: Entry, by: float, frames: float | None = None) -> bool:
        """Whether an AHEAD entry must be on a device at the time `by`, or its listener may have to wait.

        Another row may go before it, which is as long as usual or has this many `frames`.
        """
        now = self._clock.now()
        lead = max(
            (
                device.slowdown(now) * device.costs.batch_seconds(size)
                for device in self.up()
                for size in (entry.frames + (device.costs.row_frames if frames is None else frames),)
            ),
            default=0.0,
        )
        return entry.runs_out - AHEAD_FACTOR * lead - AHEAD_SECONDS <= by

    def wait_seconds(self, *, rows: int, frames: float, unknown_rows: int) -> float:
        """The time until the devices together have worked this off and one is free, by their present pace.

        It is 0 while their speed is unknown.
        """
        up, now = self.up(), self._clock.now()
        if not up:
            return 0.0
        alone = [
            device.slowdown(now)
            * device.costs.backlog_seconds(
                rows=rows,
                frames=frames,
                unknown_rows=unknown_rows,
                max_rows=device.policy.max_rows,
                budget=device.cap.frames,
            )
            for device in up
        ]
        known = [seconds for seconds in alone if seconds]  # the rest are assumed to be as fast
        together = len(known) / len(up) / sum(1 / seconds for seconds in known) if known else 0.0
        return together + min(device.remaining_seconds(now) for device in up)


def _has_work(express: Device, waiting: PriorityLanes) -> bool:
    """Whether it has the memory for the next urgent entry, of which there must be one."""
    return waiting.leader(URGENT).frames <= express.policy.max_padded_frames


def _measured_speed(engine: Engine) -> tuple[RealTimeFactor | None, float]:
    """By which streams are cut, and by which the first texts are admitted; 0 where it is not known."""
    if not isinstance(engine, MeasuresSpeed) or not engine.real_time_factor:
        return None, 0.0
    return RealTimeFactor(engine.real_time_factor), engine.present_factor or engine.real_time_factor


def _names(devices: Sequence[str]) -> list[str]:
    """A device with several engines, or calls at once, gets a number for each but the first: cuda:0, cuda:0#2."""
    seen: Counter[str] = Counter()
    names = []
    for device in devices:
        seen[device] += 1
        names.append(device if seen[device] == 1 else f"{device}#{seen[device]}")
    return names
