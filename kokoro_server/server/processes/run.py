"""Runs a server, in one process or in several."""

from __future__ import annotations

from contextlib import closing

from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.runtime.event_loop import run_on_loop
from kokoro_server.runtime.machine import available_cores
from kokoro_server.runtime.sockets import CAN_SHARE, listen
from kokoro_server.server.processes.child import LOADER, loader_named

# The second core is for the engine process and for G2P. Workers are half idle even so: a request to a worker that is
# busy with bulk waits for it.
CORES_PER_WORKER = 2
MAX_WORKERS = 8


def worker_count(settings: Settings) -> int:
    """How many processes answer requests. With 1, that process holds the model, too."""
    if settings.server_processes:
        return settings.server_processes
    if not CAN_SHARE or not backends.expects_nvidia_gpu(settings):
        return 1
    return max(1, min(MAX_WORKERS, int(available_cores() / CORES_PER_WORKER)))


def run(settings: Settings, load: str = LOADER) -> None:
    """Serve until a signal. `load` names the function that loads the model, as `module:function`."""
    workers = worker_count(settings)
    if workers == 1:
        run_on_loop(_serve_alone(settings, load))
    else:
        from kokoro_server.server.processes.supervisor import serve

        run_on_loop(serve(settings, workers, load))


async def _serve_alone(settings: Settings, load: str) -> None:
    """In this process. The application takes seconds to import; G2P and the model start meanwhile."""
    from kokoro_server.server.head_start import head_start

    with closing(listen(settings)) as listeners:  # first: where a port is taken, nothing shall start
        begun = await head_start(settings, loader_named(load))
        try:
            from kokoro_server.server import serving
            from kokoro_server.server.app import create_app

            await serving.serve(create_app(settings, begun.load, g2p=begun.g2p), settings, listeners=listeners)
        finally:
            if begun.g2p:
                await begun.g2p.stop()
