"""Unloads the model when nothing has been spoken for some time, and loads it again for the next text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kokoro_server.batching.clock import Clock, Timer
from kokoro_server.batching.devices.pool import Devices
from kokoro_server.batching.devices.thread import DeviceThread
from kokoro_server.batching.model_slots import ModelSlot
from kokoro_server.batching.state import ModelSnapshot
from kokoro_server.engine.protocol import Reloadable
from kokoro_server.engine.sticky import sticky_error
from kokoro_server.errors import TooBusy
from kokoro_server.observability.metrics import Metrics
from kokoro_server.runtime.background import cancel, logged_task

logger = logging.getLogger(__name__)

# Seconds that it may take to unload or to load the model. Ten are usual, but kernels may have to be compiled, or files
# to be fetched. A change that takes longer hangs, and only a restart helps.
TIMEOUT = 600.0
CHANGES = ("unload", "load", "failed_load")


class ModelState(StrEnum):
    """The names are part of the API."""

    LOADED = "loaded"
    UNLOADING = "unloading"
    UNLOADED = "unloaded"
    LOADING = "loading"


@dataclass(frozen=True, slots=True)
class Hooks:
    """The queue's side."""

    is_idle: Callable[[], bool]  # nothing is spoken, nothing waits, and no device is in trouble
    loaded: Callable[[], object]
    not_loaded: Callable[[str], object]  # the load failed, for this reason: entries that wait must fail too
    give_up: Callable[[str], object]  # only a new process helps, for this reason


class IdleUnloader:
    """Unloads and loads the model. Used on the event loop only; the slow calls run in a thread.

    With `idle_seconds` of 0, it does so only if another model takes its `slot`. While the model is unloaded, devices
    take no batch, so that entries wait in the queue. Background work of a device does not keep the model loaded.
    """

    def __init__(
        self,
        model: Reloadable,
        idle_seconds: float,
        engines: Devices,
        hooks: Hooks,
        clock: Clock,
        metrics: Metrics | None = None,
        slot: ModelSlot | None = None,
    ) -> None:
        self.state = ModelState.LOADED
        self._model = model
        self._idle_seconds = idle_seconds
        self._engines = engines
        self._hooks = hooks
        self._clock = clock
        self._metrics = metrics
        self._slot = slot
        if slot is not None:
            slot.unload, slot.last_worked = self.unload, self._last_worked
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._loader: DeviceThread | None = None
        self._wanted = False  # by a text that came while it was being unloaded
        self._loaded_at = clock.now()
        self._snapshot: ModelSnapshot = {"state": self.state.value, "unloads": 0, "loads": 0, "failed_loads": 0}
        if idle_seconds:
            self._snapshot["unload_after_s"] = idle_seconds
        if metrics is not None:
            for change in CHANGES:  # from the start: Prometheus does not see the first step of a counter that is new
                metrics.model_changes.labels(change)

    @property
    def loaded(self) -> bool:
        return self.state is ModelState.LOADED

    def start(self) -> None:
        self._look_at(self._clock.now() + self._idle_seconds)

    async def stop(self) -> None:
        """Does not wait for a load or unload that runs in its thread."""
        self._cancel_timer()
        await cancel(self._task)
        if self._loader is not None:
            self._loader.stop()

    def want(self) -> None:
        """A text is to be spoken: load the model if it is not in memory."""
        if self.state is ModelState.UNLOADING:
            self._wanted = True
        elif self.state is ModelState.UNLOADED:
            self._begin(ModelState.LOADING, self._load())

    async def unload(self) -> bool:
        """Unload the model now. False if it is in use, or if it has gone already."""
        if not self.loaded or not self._hooks.is_idle():
            return False
        self._begin(ModelState.UNLOADING, self._unload(self._engines.detach()))
        assert self._task is not None
        await asyncio.wait({self._task})
        return True

    def snapshot(self) -> ModelSnapshot:
        return {**self._snapshot, "state": self.state.value}

    def _look_at(self, when: float) -> None:
        self._cancel_timer()
        if self._idle_seconds:
            self._timer = self._clock.call_at(when, self._look)

    def _look(self) -> None:
        now = self._clock.now()
        worked = self._last_worked() if self._hooks.is_idle() else now
        if worked + self._idle_seconds > now:
            self._look_at(worked + self._idle_seconds)
        else:
            self._begin(ModelState.UNLOADING, self._unload(self._engines.detach()))

    def _last_worked(self) -> float:
        return max(self._engines.last_worked, self._loaded_at)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, state: ModelState, change: Coroutine[Any, Any, None]) -> None:
        self.state = state
        self._cancel_timer()
        self._timer = self._clock.call_at(self._clock.now() + TIMEOUT, self._hangs)
        self._task = logged_task(change)

    def _hangs(self) -> None:
        self._hooks.give_up(f"the model has been {self.state.value} for {TIMEOUT:g} s")

    async def _unload(self, threads: Sequence[DeviceThread]) -> None:
        await self._free(threads)
        self._cancel_timer()
        self.state = ModelState.UNLOADED
        self._give_slot_back()
        self._count("unload")
        logger.info("model unloaded idle_s=%.0f", self._clock.now() - self._last_worked())
        wanted, self._wanted = self._wanted, False
        if wanted:
            self._begin(ModelState.LOADING, self._load())

    def _thread(self) -> DeviceThread:
        """One for all loads and unloads: a thread that has used a GPU leaves some megabytes behind when it ends."""
        if self._loader is None or not self._loader.alive:
            self._loader = DeviceThread(asyncio.get_running_loop(), "loader")
        return self._loader

    async def _free(self, threads: Sequence[DeviceThread]) -> None:
        try:
            await asyncio.gather(*(thread.call(_nothing) for thread in threads))  # each may be in a call of an engine
            await self._thread().call(self._model.unload)
        except Exception:  # should it matter, the next load fails
            logger.exception("not all memory of the model could be freed")

    async def _load(self) -> None:
        started = self._clock.now()
        try:
            if self._slot is not None:
                await self._slot.take()
            self._engines.attach(await self._thread().call(self._model.load))
        except Exception as error:
            logger.exception("the model could not be loaded again")
            poisoned = sticky_error(error) is not None
            why = error.message if isinstance(error, TooBusy) else "see /health"
        else:
            self._has_loaded(self._clock.now() - started)
            return
        if poisoned:
            self._hooks.not_loaded(why)
            self._hooks.give_up("the device failed while the model was loaded again")
        else:
            await self._has_failed(why)

    def _has_loaded(self, seconds: float) -> None:
        self.state, self._loaded_at = ModelState.LOADED, self._clock.now()
        self._count("load")
        self._snapshot["last_load_s"] = round(seconds, 3)
        if self._metrics is not None:
            self._metrics.model_load_time.observe(seconds)
        logger.info("model loaded seconds=%.1f", seconds)
        self._hooks.loaded()
        self._look_at(self._loaded_at + self._idle_seconds)

    async def _has_failed(self, why: str) -> None:
        await self._free(self._engines.detach())  # not in the except block: the error's frames hold loaded tensors
        self._cancel_timer()
        self.state = ModelState.UNLOADED
        self._give_slot_back()
        self._count("failed_load")
        self._hooks.not_loaded(why)

    def _give_slot_back(self) -> None:
        if self._slot is not None:
            self._slot.give_back()

    def _count(self, change: str) -> None:
        self._snapshot[f"{change}s"] += 1  # type: ignore[literal-required]
        self._snapshot[f"last_{change}"] = datetime.now(UTC).isoformat(timespec="seconds")  # type: ignore[literal-required]
        if self._metrics is not None:
            self._metrics.model_changes.labels(change).inc()


def _nothing() -> None:
    """A call that ends when those before it have ended."""
