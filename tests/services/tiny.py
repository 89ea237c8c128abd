"""A real server process around the tiny model. `python -m tests.services.tiny`, settings from the environment."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kokoro_server import logs
from kokoro_server.app import create_app
from kokoro_server.config import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.processes.run import front_count, run
from kokoro_server.serving import run as run_app
from tests import tiny


def load(settings: Settings) -> LoadedModel:
    """For the engine process, which ends by itself: the folder is left to the system."""
    return tiny.load(Path(tempfile.mkdtemp()), len(settings.devices) or 1, settings.backend)


if __name__ == "__main__":
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    if front_count(settings) > 1:
        run(settings, "tests.services.tiny:load")
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        engines = len(settings.devices) or 1
        app = create_app(settings, load=lambda _settings: tiny.load(Path(folder), engines, settings.backend))
        app.add_api_route("/modules", lambda: sorted(sys.modules))
        run_app(app, settings)
