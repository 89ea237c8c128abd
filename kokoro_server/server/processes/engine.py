"""The engine process: it owns the model, its devices and the queue, for all API workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.callers.limits import CallerCounts
from kokoro_server.config.settings import Settings
from kokoro_server.engine import folders
from kokoro_server.engine.folders import LoadFolder
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import EngineUnavailable
from kokoro_server.observability.conditions import Condition
from kokoro_server.observability.metrics import Metrics
from kokoro_server.runtime.background import background, unless_set
from kokoro_server.runtime.event_loop import freeze_heap, trim_now_and_then, watch_lag
from kokoro_server.runtime.sockets import SHUTDOWN_GRACE, on_signals
from kokoro_server.runtime.threads import in_daemon_thread
from kokoro_server.server.ipc.server import IpcServer
from kokoro_server.server.ipc.shared_state import ENGINE, SharedState
from kokoro_server.server.ipc.siblings import FOR_SUCCESSOR, Publisher
from kokoro_server.server.models import folder_models

log = logging.getLogger(__name__)

# Seconds that API workers get to end before this process does, so that what they have begun is spoken. The supervisor
# keeps that order, but a service manager may ask all processes at once to end.
WORKERS_GRACE = SHUTDOWN_GRACE + 2.0


async def serve(
    settings: Settings,
    load: Callable[[Settings], LoadedModel],
    state: SharedState,
    path: Path,
    on_ready: Callable[[], None],
    load_folder: LoadFolder = folders.load,
) -> None:
    """Serve until a signal. Raises SetupError if something is missing, EngineUnavailable for a lost device."""
    stop = asyncio.Event()
    lost: list[str] = []

    def device_lost(reason: str) -> None:
        log.critical("the device is lost, the process must end reason=%s", reason)
        lost.append(reason)
        stop.set()

    on_signals(lambda _number: stop.set())
    model = await unless_set(stop, _load(settings, load))
    if model is None:
        return
    metrics = Metrics("engine")
    options = BatchingOptions.of(settings)
    queue = BatchQueue(model.engines, options, model=model.reloadable, metrics=metrics, on_fatal=device_lost)
    await queue.start()
    others = folder_models(settings, load_folder, device_lost)

    def conditions() -> tuple[Condition, ...]:
        return (*model.conditions, *(others.conditions if others else ()))

    metrics.watch_conditions(conditions)
    # Streams are cut by the pace that the first process measured: the same request must sound the same after a restart,
    # which may be in the midst of other work.
    pace = {"real_time_factor": queue.real_time_factor()} | state.slots[ENGINE].read().get(FOR_SUCCESSOR, {})
    publisher = Publisher(state.slots[ENGINE], metrics, lambda: {FOR_SUCCESSOR: pace})
    publisher.conditions = conditions
    limits = CallerCounts(settings.rate_limit, settings.max_concurrent_requests)
    folder_queues = others.models if others else {}
    ipc = IpcServer(queue, limits, model.facts, publish=publisher.publish, models=folder_queues, **pace)
    freeze_heap()
    trimming = trim_now_and_then(lambda: queue.busy)
    async with background(publisher.run(), trimming, watch_lag(metrics.loop_lag.observe)):
        ipc.start(path)
        on_ready()
        await stop.wait()
        log.info("stopping")
        if not lost:
            await ipc.until_closed(WORKERS_GRACE)
        await queue.stop()
        if others:
            await others.stop()
        await ipc.stop()
    publisher.publish()
    if lost:
        raise EngineUnavailable(f"ended because the device is lost: {lost[0]}")


async def _load(settings: Settings, load: Callable[[Settings], LoadedModel]) -> LoadedModel:
    model = await in_daemon_thread(lambda: load(settings))
    await in_daemon_thread(model.measure)
    return model
