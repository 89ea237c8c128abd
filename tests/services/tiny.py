"""A real server process around the tiny model. `python -m tests.services.tiny`, settings from the environment."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI

from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.observability import logs
from kokoro_server.runtime.event_loop import run_on_loop
from kokoro_server.server import serving
from kokoro_server.server.app import create_app
from kokoro_server.server.processes.run import run, worker_count
from tests import tiny


def load(settings: Settings, folder: str | None = None) -> LoadedModel:
    """Without a folder it makes one, and leaves it to the system: an engine process does not tell when it ends."""
    return tiny.load(Path(folder or tempfile.mkdtemp()), len(settings.devices) or 1, settings.backend)


def main(
    name: str,
    load: Callable[[Settings, str], LoadedModel],
    add_routes: Callable[[FastAPI], None] = lambda _app: None,
) -> None:
    """Serve with what `load` gives. `name` is its name, for processes other than this one."""
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    if worker_count(settings) > 1:
        run(settings, name)
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("SOAK_TMPDIR")) as folder:
        app = create_app(settings, load=lambda settings: load(settings, folder))
        add_routes(app)
        run_on_loop(serving.serve(app, settings))


def _add_routes(app: FastAPI) -> None:
    app.add_api_route("/modules", lambda: sorted(sys.modules))


if __name__ == "__main__":
    main("tests.services.tiny:load", load, _add_routes)
