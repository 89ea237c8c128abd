"""Watches the dispatcher and the devices: restarts or gives up what failed, and answers every entry it held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.devices.device import Device, RunningBatch
from kokoro_server.batching.devices.pool import Devices
from kokoro_server.batching.devices.watch import ForwardStuck
from kokoro_server.batching.dispatcher import DeviceLost, Dispatcher
from kokoro_server.batching.entry import Entry
from kokoro_server.batching.faults import CrashHistory
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.stats import Stats
from kokoro_server.errors import EngineUnavailable, Expired

logger = logging.getLogger(__name__)

RETRY_AFTER = 1.0  # seconds
STOP_GRACE = 5.0  # seconds that the batches on the devices get to finish


class WorkerSupervisor:
    """Starts and stops the dispatcher's task and the devices' threads, and decides what their failures mean.

    `alive` is false when only a restart of the process can help; `on_fatal` is then called, once, with the reason.
    """

    def __init__(
        self, devices: Devices, waiting: PriorityLanes, stats: Stats, clock: Clock, on_fatal: Callable[[str], object]
    ) -> None:
        self.alive = True
        self.crashes = CrashHistory()  # of the dispatcher
        self.dispatcher = Dispatcher(devices, waiting, stats, clock, self._device_failed)
        self._devices = devices
        self._waiting = waiting
        self._clock = clock
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._is_fatal = False

    @property
    def ready(self) -> bool:
        return self.alive and not self._stopping and self._task is not None and not self._task.done()

    def start(self) -> None:
        for device in self._devices.every():
            device.start()
        self._task = asyncio.get_running_loop().create_task(self.dispatcher.run(), name="kokoro-batch-worker")
        self._task.add_done_callback(self._worker_ended)

    async def stop(self) -> None:
        """Fail the waiting entries with EngineUnavailable; batches on the devices get a few seconds to finish."""
        self._stopping = True
        self.fail_waiting("the server is shutting down")
        task, self._task = self._task, None
        if task is not None:
            self.dispatcher.stop()
            timer = self._clock.call_at(self._clock.now() + STOP_GRACE, task.cancel)
            await asyncio.wait({task})
            timer.cancel()
        for device in self._devices.every():
            device.stop()

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        """Fail every entry, so that nobody waits in vain. Then start the dispatcher again, unless it died too often."""
        error = None if task.cancelled() else task.exception()
        for device in self._devices.every():
            for batch in device.running:
                _fail(batch.entries, "the synthesis worker stopped")
            device.drop_running()
        self.fail_waiting("the synthesis worker stopped")
        if self._stopping:
            return
        self.crashes.add(self._clock.now())
        logger.critical("batch worker died error=%r", error, exc_info=error)
        if self.crashes.too_many:
            self.give_up(f"the batch worker died too often: {error!r}")
        else:
            self.start()

    def _device_failed(self, device: Device, batch: RunningBatch, error: Exception) -> None:
        """Fail the device's batch, and the waiting entries too unless another device works."""
        if isinstance(error, ForwardStuck):
            for entry in batch.entries:
                entry.fail(Expired(f"{error}; {device.name} is given up"))
        _fail(batch.entries, f"{device.name} stopped working")
        if self._stopping:
            return
        device.crashes.add(self._clock.now())
        logger.critical("device failed device=%s error=%r", device.name, error, exc_info=error)
        if isinstance(error, DeviceLost | ForwardStuck) or device.crashes.too_many:
            device.lost = str(error)
            for behind in device.running:
                _fail(behind.entries, f"{device.name} stopped working")
        is_last = isinstance(error, DeviceLost) or not self._devices.up()
        if is_last or not self.alive or self._devices.up() == [device]:
            self.fail_waiting(f"{device.name} stopped working")
        if is_last:
            self.give_up(str(error))
        elif isinstance(error, ForwardStuck):
            device.recheck(partial(self._device_recovered, device))

    def _device_recovered(self, device: Device) -> None:
        if device.is_up() or not self.alive or self._stopping:
            return
        device.lost = None
        logger.warning("device works again device=%s", device.name)
        self.dispatcher.wake()

    def give_up(self, reason: str) -> None:
        """Nothing can be spoken any more in this process."""
        self.alive = False
        if not self._is_fatal:
            self._is_fatal = True  # reported once, though other devices may now fail too
            self._on_fatal(reason)

    def fail_waiting(self, why: str, retry_after: float = RETRY_AFTER) -> None:
        entries = list(self._waiting)
        for entry in entries:
            self._waiting.discard(entry)
        _fail(entries, why, retry_after)


def _fail(entries: Sequence[Entry], why: str, retry_after: float = RETRY_AFTER) -> None:
    for entry in entries:
        entry.fail(EngineUnavailable(f"{why}; try again", retry_after=retry_after))
