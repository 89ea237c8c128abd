"""Runs a server, in one process or in several."""

from __future__ import annotations

from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.runtime.event_loop import run_on_loop
from kokoro_server.runtime.machine import available_cores
from kokoro_server.server.processes.child import LOADER, loader_named

# The others are for the engine process and for G2P. Fronts are half idle even so: what is asked of one that has much to
# do for bulk waits for that.
CORES_PER_FRONT = 2
MAX_FRONTS = 8


def front_count(settings: Settings) -> int:
    """How many processes answer requests. One that does has the model too."""
    if settings.server_processes:
        return settings.server_processes
    if not backends.expects_nvidia_gpu(settings):
        return 1
    return max(1, min(MAX_FRONTS, int(available_cores() / CORES_PER_FRONT)))


def run(settings: Settings, load: str = LOADER) -> None:
    """Serve until a signal. `load` names what loads the model, as `module:function`."""
    fronts = front_count(settings)
    if fronts == 1:
        from kokoro_server.server import serving
        from kokoro_server.server.app import create_app

        serving.run(create_app(settings, loader_named(load)), settings)
    else:
        from kokoro_server.server.processes.supervisor import serve

        run_on_loop(serve(settings, fronts, load))
