"""What takes longest at a start, begun before the application is imported: the G2P service's process and the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.engine.loader import LoadedModel, LoadModel
from kokoro_server.g2p.child import G2PChild
from kokoro_server.g2p.worker_count import default_worker_count
from kokoro_server.runtime.threads import start_loading


def g2p_child(settings: Settings) -> G2PChild | None:
    """The G2P service that the server runs itself, unless the settings name another."""
    if settings.g2p_url:
        return None
    beside_gpu = backends.expects_nvidia_gpu(settings)
    workers = settings.g2p_workers or default_worker_count(beside_gpu=beside_gpu)
    return G2PChild(log_level=settings.log_level, workers=workers, tracing=settings.tracing)


@dataclass(frozen=True, slots=True)
class HeadStart:
    """A process that was launched and waits for `start`, and a `load` that waits for the model."""

    g2p: G2PChild | None
    load: LoadModel


async def head_start(settings: Settings, load: Callable[[Settings], LoadedModel]) -> HeadStart:
    g2p = g2p_child(settings)
    if g2p:
        await g2p.spawn()
    # FastAPI silences it by `catch_warnings`, which a thread that does the same meanwhile may undo: `load` runs in one.
    warnings.filterwarnings("ignore", "The '.*' attribute with value .* was provided to the `Field")
    model: Future[LoadedModel] = Future()

    def run() -> None:
        try:
            model.set_result(load(settings))
        except BaseException as error:
            model.set_exception(error)

    start_loading(run)
    return HeadStart(g2p, lambda _settings: model.result())
