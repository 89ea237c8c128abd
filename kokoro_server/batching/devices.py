"""All devices behind the queue: which of them is free, and how long what waits will take them together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import RealTimeFactor
from kokoro_server.batching.device import Device, RunningBatch
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.thread import DeviceThread
from kokoro_server.engine.protocol import Engine, MeasuresSpeed


class Devices:
    """All devices of a queue, in the order of the engines.

    An engine that computes calls side by side counts as so many devices, each of which does one at a time.
    """

    def __init__(self, engines: Sequence[Engine], options: BatchingOptions, clock: Clock) -> None:
        parallel = [options.parallel_limit(engine.limits) for engine in engines]
        names = iter(_names([e.device for e, calls in zip(engines, parallel, strict=True) for _ in range(calls)]))
        self._by_engine: list[list[Device]] = []
        for engine, calls in zip(engines, parallel, strict=True):
            speed = _measured_speed(engine)
            self._by_engine.append([Device(next(names), engine, options, clock, speed) for _ in range(calls)])
        self._all = [device for devices in self._by_engine for device in devices]
        self._clock = clock

    def __iter__(self) -> Iterator[Device]:
        return iter(self._all)

    def attach(self, engines: Sequence[Engine]) -> None:
        """Give each device its engine again, and start it. There must be as many as at first."""
        for devices, engine in zip(self._by_engine, engines, strict=True):
            for device in devices:
                device.attach(engine)
                device.start()

    def detach(self) -> list[DeviceThread]:
        """Let go of all engines; see `Device.detach`."""
        return [thread for device in self._all for thread in device.detach()]

    @property
    def last_worked(self) -> float:
        """When the last batch ended."""
        return max(device.last_worked for device in self._all)

    def free(self) -> list[Device]:
        """Devices that take a batch now: idle ones first, then the least busy, then the one that is idle longest."""
        now = self._clock.now()
        free = [device for device in self._all if device.available_at() <= now]
        if len(free) > 1:
            free.sort(key=lambda device: (not device.idle, round(device.load(now), 2), device.last_worked))
        return free

    def available_at(self) -> float | None:
        """When the next device will take a batch, if that can be predicted."""
        soonest = min(device.available_at() for device in self._all)
        return soonest if math.isfinite(soonest) else None

    def up(self) -> list[Device]:
        return [device for device in self._all if device.is_up()]

    @property
    def idle(self) -> bool:
        return all(device.idle for device in self._all)

    @property
    def max_rows(self) -> int:
        """The rows that all devices together can run at once."""
        return sum(device.policy.max_rows for device in self._all)

    @property
    def running_rows(self) -> int:
        return sum(device.running_rows() for device in self._all)

    @property
    def real_time_factor(self) -> float | None:
        """That of the slowest device; None if none of them is an engine that may be slow."""
        return max((device.speed.value for device in self._all if device.speed), default=None)

    def ran_alone(self, device: Device, batch: RunningBatch) -> bool:
        """Whether no other device worked while this one ran the batch, which has just ended."""
        return all(other.idle and other.last_worked <= batch.started for other in self._all if other is not device)

    def wait_seconds(self, *, rows: int, frames: float, unknown_rows: int) -> float:
        """The time until the devices together have worked this off and one is free; 0 while their speed is unknown."""
        up = self.up()
        if not up:
            return 0.0
        alone = [
            device.costs.backlog_seconds(
                rows=rows,
                frames=frames,
                unknown_rows=unknown_rows,
                max_rows=device.policy.max_rows,
                budget=device.cap.frames,
            )
            for device in up
        ]
        known = [seconds for seconds in alone if seconds]  # the others are assumed to be as fast
        together = len(known) / len(up) / sum(1 / seconds for seconds in known) if known else 0.0
        return together + min(device.remaining_seconds(self._clock.now()) for device in up)


def _measured_speed(engine: Engine) -> RealTimeFactor | None:
    measured = engine.real_time_factor if isinstance(engine, MeasuresSpeed) else None
    return RealTimeFactor(measured) if measured else None


def _names(devices: Sequence[str]) -> list[str]:
    """A device with several engines, or calls at once, gets a number for each but the first: cuda:0, cuda:0#2."""
    seen: Counter[str] = Counter()
    names = []
    for device in devices:
        seen[device] += 1
        names.append(device if seen[device] == 1 else f"{device}#{seen[device]}")
    return names
